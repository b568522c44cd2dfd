"""spoold - a file-based spool queue for one shared box.

A job is one TOML file, the directory it lies in is its state, one spooler moves it by rename.
"""

__version__ = "0.1.0"

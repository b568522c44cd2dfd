"""jobspec - the job file: bytes in, a `Job` or every problem with its line out.

Owns the format of a job file and of spool.toml's TOML layer.  Imports the standard library and tomli-w, never spoold.
Never touches a disk, a clock or a process.
"""

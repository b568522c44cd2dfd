"""work - what the jobs of the bench night do: small measurements that load the box for real, and their summary.

Owns build/bench-night/NAME.json in the checkout, one figure a job.  Each job removes its own figure before it measures and the summary
removes all that it has shown, so that no night shows another night's figures.  They lie beside the spool and not in the temp folder:
`make clean` finds them, and no other user of the box can put a link there.  Standard library only, for the night has to run anywhere.
A measurement goes on for its seconds, not for a number of rounds, so a slow laptop prints smaller figures and does not take longer.
Fails: exit 1 and a traceback if a check of the result does not hold; 2 for a wrong call.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import time
import zlib
from array import array
from collections.abc import Callable
from pathlib import Path

RESULTS = Path(__file__).resolve().parents[3] / "build" / "bench-night"
MIB = 1024 * 1024
LARGEST = 512 * MIB
SCALE = float(os.environ.get("BENCH_NIGHT_SCALE", "1"))
"""For trying the night out in less time and memory: what both are multiplied with."""


def share_of_ram(percent: float) -> int:
    """That share of the RAM in bytes, for a job of the night to allocate for real: at most 512 MiB, and an eighth of what it declared."""
    size = min(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * percent / 100, LARGEST)
    # in a container the box is smaller than the machine that sysconf sees; what the spooler counted for this job knows that
    declared = int(os.environ.get("SPOOLD_MEMORY", "0"))
    return int((min(size, declared / 8) if declared else size) * SCALE)


def repeat(seconds: float, work: Callable[[], int]) -> tuple[int, float]:
    """Do the work again and again for so many seconds, at least once: how much was done, in how many seconds."""
    begun = time.perf_counter()
    done = 0
    while True:
        done += work()
        took = time.perf_counter() - begun
        if took >= seconds:
            return done, took


def hashing(seconds: float) -> tuple[float, str, str]:
    """SHA-256 over one block, each digest going into the next."""
    block = random.Random(50).randbytes(MIB)
    digest = hashlib.sha256()

    def once() -> int:
        digest.update(block)
        return len(block)

    done, took = repeat(seconds, once)
    return done / took / 1e6, "MB/s", f"sha256 over {done / 1e9:.2f} GB, ends in {digest.hexdigest()[:8]}"


def compression(seconds: float) -> tuple[float, str, str]:
    """zlib over text that is half noise, each block unpacked again and compared."""
    source = random.Random(51)
    block = b"".join(source.randbytes(16) + b"the queue is a folder " for _ in range(8 * 1024))
    packed = 0

    def once() -> int:
        nonlocal packed
        small = zlib.compress(block, 6)
        if zlib.decompress(small) != block:
            raise AssertionError("zlib gave back something else")
        packed += len(small)
        return len(block)

    done, took = repeat(seconds, once)
    return done / took / 1e6, "MB/s", f"zlib -6 over {done / 1e6:.0f} MB, {done / packed:.2f} to 1"


def matrix(seconds: float) -> tuple[float, str, str]:
    """Matrix products in plain Python, checked by trace(AB) = trace(BA)."""
    side = 64
    source = random.Random(52)
    a, b = ([[source.uniform(-1, 1) for _ in range(side)] for _ in range(side)] for _ in range(2))

    def product(left: list[list[float]], right: list[list[float]]) -> list[list[float]]:
        columns = list(zip(*right, strict=True))
        return [[sum(x * y for x, y in zip(row, column, strict=True)) for column in columns] for row in left]

    def once() -> int:
        ab, ba = product(a, b), product(b, a)
        if abs(sum(ab[i][i] - ba[i][i] for i in range(side))) > 1e-9:
            raise AssertionError("trace(AB) is not trace(BA)")
        return 4 * side**3

    done, took = repeat(seconds, once)
    return done / took / 1e6, "MFLOP/s", f"{done // (2 * side**3)} products of {side} x {side}"


def quantization(seconds: float) -> tuple[float, str, str]:
    """32-bit floats to 8-bit integers with one scale a block of 32, from an array that is really there; the error is measured."""
    block = 32
    source = random.Random(40)
    weights = array("f", [source.gauss(0, 1) for _ in range(16 * 1024)])
    weights *= max(1, share_of_ram(1) // (len(weights) * weights.itemsize))
    blocks = len(weights) // block
    packed = bytearray(len(weights))
    at = 0
    worst = 0.0

    def once() -> int:
        nonlocal at, worst
        for _ in range(256):
            start = at * block
            values = weights[start : start + block]
            scale = max(map(abs, values)) / 127
            small = [round(value / scale) for value in values]
            packed[start : start + block] = bytes(byte & 255 for byte in small)
            worst = max(worst, max(abs(value - byte * scale) / scale for value, byte in zip(values, small, strict=True)))
            at = (at + 1) % blocks
        return 256 * block

    done, took = repeat(seconds, once)
    if worst > 0.501:
        raise AssertionError(f"a weight is off by {worst:.3f} steps, half a step is the most there can be")
    held = len(weights) * weights.itemsize + len(packed)
    return done / took / 1e6, "Mweights/s", f"{done / 1e6:.1f} M weights, {held / 1e6:.0f} MB held, off by {worst:.2f} steps at most"


def model(seconds: float) -> tuple[float, str, str]:
    """Reads a buffer of 2 % of the RAM (at most 512 MiB) from end to end, again and again."""
    size = max(1, share_of_ram(2) // MIB) * MIB
    weights = memoryview(bytearray(size))
    block = random.Random(64).randbytes(MIB)
    for start in range(0, size, MIB):
        # a page that nobody wrote to takes no memory: every page is written
        weights[start : start + MIB] = block
    sums = set()

    def once() -> int:
        total = 1
        for start in range(0, size, 16 * MIB):
            total = zlib.adler32(weights[start : start + 16 * MIB], total)
        sums.add(total)
        return size

    done, took = repeat(seconds, once)
    if len(sums) != 1:
        raise AssertionError("the same memory gave two sums")
    return done / took / 1e9, "GB/s", f"{size / 1e6:.0f} MB held, read {done // size} times"


WORK: dict[str, Callable[[float], tuple[float, str, str]]] = {
    "hash": hashing,
    "compress": compression,
    "matrix": matrix,
    "quantize": quantization,
    "model": model,
}


def measure(what: str, name: str, seconds: float) -> None:
    """One job: its figure on standard output, which is its log, and in RESULTS for the summary."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    result = RESULTS / f"{name}.json"
    result.unlink(missing_ok=True)
    print(f"{name}: {what} for {seconds:g} s", flush=True)
    figure, unit, detail = WORK[what](seconds)
    fresh = result.with_suffix(".new")
    fresh.write_text(json.dumps({"figure": figure, "unit": unit, "detail": detail}))
    fresh.replace(result)
    print(f"{name}: {figure:.4g} {unit} ({detail})")


def summary(names: list[str]) -> None:
    """The table of the night: a line for each name, also for a job that left no figure."""
    for name in names:
        result = RESULTS / f"{name}.json"
        try:
            found = json.loads(result.read_text())
        except FileNotFoundError:
            print(f"{name:<8} no figure: `spoold why {name}` says what became of it")
            continue
        print(f"{name:<8} {found['figure']:>9.4g} {found['unit']:<10} {found['detail']}")
        result.unlink()


def main() -> None:
    parser = argparse.ArgumentParser(description="the work of the bench night")
    verbs = parser.add_subparsers(dest="verb", required=True)
    for what in WORK:
        verb = verbs.add_parser(what)
        verb.add_argument("name")
        verb.add_argument("seconds", type=float)
    verbs.add_parser("summary").add_argument("names", nargs="+")
    asked = parser.parse_args()
    if asked.verb == "summary":
        summary(asked.names)
    else:
        measure(asked.verb, asked.name, asked.seconds * SCALE)


if __name__ == "__main__":
    main()

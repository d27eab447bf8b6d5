"""What the tests in a machine of QEMU say while they run."""

import time

STARTED = time.monotonic()


def say(text):
    print(f"{time.monotonic() - STARTED:6.0f} s  {text}", flush=True)

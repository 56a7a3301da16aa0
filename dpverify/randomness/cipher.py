"""Random bits at the speed of a stream cipher: AES-256 in counter mode, keyed anew for every draw.

The operating system gives about 0.4 GB of random bytes a second, AES with hardware support
several times as much. Ideal bits are then replaced by pseudorandom ones, as they are in the
operating system's own generator: whoever tells a draw of n words from ideal bits breaks
AES-256, or sees that blocks of 128 bits never repeat, an advantage below n^2 / 2^131.

A source keeps no key, no counter and no buffer. That is the whole defense: what is not kept
cannot be handed out twice, not to threads, not to signal handlers, not to a forked child, and a
source that falls into the wrong hands tells nothing of earlier draws. (Python overwrites no
memory that it frees: a key, like the noise itself, can linger there.)
"""

from __future__ import annotations

import os

import numpy as np
from numpy.typing import NDArray

from dpverify.randomness.bits import Bits

SEED_BYTES = 48
"""Number of bytes of a seed: 32 of the key, 16 of the first counter."""
BULK = 256
"""Number of words below which setting up the cipher takes longer than asking the operating
system.
"""
_ZEROS = memoryview(bytes(1 << 16))  # encrypted piece by piece: it stays in the fastest cache


class CipherBits(Bits):
    """Bits of the operating system, large draws stretched by AES-256-CTR (the extra ``fast``).

    Every draw of ``BULK`` words or more has a fresh key from os.urandom, which is gone when the
    draw is done; smaller ones are read from os.urandom itself. Slower than ``SystemBits`` on
    machines without AES instructions. Raises ImportError without the package ``cryptography``.
    """

    def __init__(self) -> None:
        keystream(bytes(SEED_BYTES), 1)  # a missing package is reported here, not in a release

    def words(self, count: int) -> NDArray[np.uint64]:
        """Return ``count`` words: few from os.urandom, many from a keystream never used before."""
        if count < BULK:
            return np.frombuffer(os.urandom(8 * count), dtype=np.uint64)
        return keystream(os.urandom(SEED_BYTES), count)


def keystream(seed: bytes, count: int) -> NDArray[np.uint64]:
    """Return the first ``count`` words of AES-256-CTR for this key and first counter.

    The seed is 32 bytes of the key and 16 of the counter. Source: NIST SP 800-38A, section 6.5.
    Raises ImportError without the package ``cryptography``, RuntimeError if the cipher leaves a
    part of the words unwritten.
    """
    try:
        from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
    except ImportError as missing:
        raise ImportError(
            "CipherBits needs the package cryptography: pip install 'dpverify[fast]'."
        ) from missing
    encryptor = Cipher(algorithms.AES(seed[:32]), modes.CTR(seed[32:])).encryptor()
    out = memoryview(bytearray(8 * count))
    for start in range(0, len(out), len(_ZEROS)):
        piece = out[start : start + len(_ZEROS)]
        if encryptor.update_into(_ZEROS[: len(piece)], piece) != len(piece):
            raise RuntimeError("the cipher left words unwritten; no bits are handed out")
    return np.frombuffer(out, dtype=np.uint64)

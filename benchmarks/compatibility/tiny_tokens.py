"""Write random tokens as nanoGPT reads them: ``tiny_tokens.py FOLDER``."""

import pickle
import random
import sys
from array import array
from pathlib import Path


def main() -> None:
    """Write two splits and the size of the vocabulary."""
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    generator = random.Random(0)  # noqa: S311 - tokens, no secrets
    for split in ("train", "val"):
        tokens = array("H", (generator.randrange(65) for _ in range(20_000)))
        (folder / f"{split}.bin").write_bytes(tokens.tobytes())
    (folder / "meta.pkl").write_bytes(pickle.dumps({"vocab_size": 65}))


if __name__ == "__main__":
    main()

"""What tests of presets from elsewhere ask of the cache, and of hashes."""

from zoo.storage.presets import fingerprint


def left_in(cache):
    """The names of the presets in a cache, which may not be there."""
    return sorted(path.name for path in cache.iterdir()) if cache.exists() else []


def pin(path):
    """The end of an address that tells the hash of its file."""
    return f"#sha256={fingerprint(path)['sha256']}"

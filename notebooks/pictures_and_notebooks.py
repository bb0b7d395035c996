"""A hook of MkDocs: pages may link to the pictures and notebooks beside their folder.

The links are relative, `../images/masks.png`, so that they work in a repository browser as well.
"""

import pathlib

from mkdocs.structure.files import File, InclusionLevel

FOLDER = pathlib.Path(__file__).parent


def on_files(files, config):
    """Adds the pictures as `images/*.png` and the notebooks as `notebooks/*.ipynb`."""
    for path in sorted([*FOLDER.glob("images/*.png"), *FOLDER.glob("*.ipynb")]):
        name = path.relative_to(FOLDER).as_posix()
        # By default, MkDocs leaves out paths that begin with a dot.
        included = {"abs_src_path": str(path), "inclusion": InclusionLevel.INCLUDED}
        file = File.generated(config, f"../{name}", **included)
        file.dest_uri = name if path.suffix == ".png" else f"notebooks/{name}"
        files.append(file)
    return files

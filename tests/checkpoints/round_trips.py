"""What saving must not change."""

import numpy as np

import zoo


def check_saved_and_back(model, theirs, folder):
    """Saves a model as a preset, and as a checkpoint that transformers reads.

    Args:
        model: The model of the zoo.
        theirs: That of transformers from which it was loaded.
        folder: Where to save.

    Returns:
        The model of the preset, and the path of the checkpoint.
    """
    model.save_to_preset(folder / "preset")
    again = zoo.load(folder / "preset")
    assert again.settings == model.settings
    assert again.core.config == model.core.config
    if model.tokenizer is not None:
        assert again.tokenizer.get_config() == model.tokenizer.get_config()
    for ours, saved in zip(model.core.get_weights(), again.core.get_weights(), strict=True):
        np.testing.assert_array_equal(saved, ours)
    path = zoo.save_checkpoint(model, folder / "again")
    back, told = type(theirs).from_pretrained(path, output_loading_info=True)
    assert not told["unexpected_keys"]
    assert not told["missing_keys"]
    state = back.state_dict()
    for name, tensor in theirs.state_dict().items():
        np.testing.assert_array_equal(state[name], tensor, err_msg=name)
    return again, path

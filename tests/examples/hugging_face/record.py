"""Write logits.npz: the logits and generated tokens of the package transformers for the models of the tests.

``python tests/examples/hugging_face/record.py`` needs torch and transformers; the tests read what it wrote.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

import folders
import numpy as np
import torch
import transformers

RECORD_FILE = Path(__file__).with_name("logits.npz")


def compute_record(folder):
    """Return the recorded arrays by name."""
    for kind in folders.CONFIGS:
        folders.make_folder(kind, folder / kind)
    tokens, types, present, images = map(torch.from_numpy, folders.inputs())
    bert = transformers.BertForMaskedLM.from_pretrained(folder / "bert").eval()
    gpt2 = transformers.GPT2LMHeadModel.from_pretrained(folder / "gpt2").eval()
    vit = transformers.ViTForImageClassification.from_pretrained(folder / "vision_transformer")
    known = bert(tokens.long(), attention_mask=present.long(), token_type_ids=types.long())
    continued = gpt2.generate(
        tokens[:1].long(), max_new_tokens=10, do_sample=False, eos_token_id=None, pad_token_id=0
    )
    return {
        "bert": known.logits,
        "gpt2": gpt2(tokens.long()).logits,
        "vision_transformer": vit.eval()(torch.movedim(images, -1, 1)).logits,
        "continued": continued[0, tokens.shape[1] :],
    }


if __name__ == "__main__":
    with TemporaryDirectory() as folder, torch.no_grad():
        arrays = {name: value.numpy() for name, value in compute_record(Path(folder)).items()}
    np.savez_compressed(RECORD_FILE, **arrays)
    print({name: (x.shape, float(np.abs(x).max())) for name, x in arrays.items()})

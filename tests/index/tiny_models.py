"""Models of the architecture of BAAI/bge-m3, so small that a test can build one: XLM-RoBERTa, CLS pooling,
normalised. Seeded: the same call writes the same model. Nothing is fetched.
"""

from __future__ import annotations

import json
import re
import string
from collections import Counter
from pathlib import Path
from typing import Any

HIDDEN = 32
LIMIT = 64
SPECIALS = ["<s>", "<pad>", "</s>", "<unk>"]
CORPUS = """
La empresa guarda sus documentos en una base de conocimiento para que todos encuentren respuestas.
Cada pedido tiene un número, una fecha de entrega y una dirección; el almacén lo prepara por la mañana.
Si una factura no coincide con el albarán, se abre una incidencia y se avisa a la proveedora.
Los turnos de guardia se publican cada lunes, y quien no pueda hacer el suyo busca a otra persona.
El despliegue se hace los martes: primero en pruebas, después en producción, y nunca en viernes.
La contraseña caduca a los noventa días; para cambiarla hace falta el segundo factor.
The index is rebuilt beside the live one and switched when it is complete.
A question is embedded once, and the nearest chunks are returned in order of their score.
"""


def _vocabulary() -> list[tuple[str, float]]:
    """Pieces with their log probabilities: whole words, their halves, and single characters.

    Made by hand, because the trainer of `tokenizers` gives other pieces on each run.
    """
    words = Counter(f"▁{word}" for word in re.findall(r"\w+", CORPUS))
    halves = Counter(half for word in words for half in (word[: len(word) // 2], word[len(word) // 2 :]))
    letters = Counter(CORPUS.replace("\n", "") + string.printable.strip() + "▁")
    scores = dict.fromkeys(sorted(letters), -8.0)
    scores |= {piece: -7.0 for piece in sorted(halves) if len(piece) > 1}
    scores |= dict.fromkeys(sorted(words), -6.0)
    return [*((special, 0.0) for special in SPECIALS), *scores.items()]


def tiny_tokenizer() -> Any:
    """A Unigram tokenizer with `<s> … </s>`, as XLM-RoBERTa's. Its ids 0 to 3 are `SPECIALS`."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.Unigram(_vocabulary(), unk_id=SPECIALS.index("<unk>")))
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.add_special_tokens(SPECIALS)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<s>",
        cls_token="<s>",
        eos_token="</s>",
        sep_token="</s>",
        pad_token="<pad>",
        unk_token="<unk>",
        model_max_length=LIMIT,
    )


def write_plain(folder: Path, *, seed: int = 0) -> Path:
    """Encoder and tokenizer, as transformers saves them: no sentence-transformers files."""
    import torch
    from transformers import XLMRobertaConfig, XLMRobertaModel

    tokenizer = tiny_tokenizer()
    torch.manual_seed(seed)
    config = XLMRobertaConfig(
        vocab_size=len(tokenizer),
        hidden_size=HIDDEN,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=LIMIT + 2,
        # Larger than is usual for training, or all texts would have nearly the same vector.
        initializer_range=0.5,
        bos_token_id=0,
        pad_token_id=1,
        eos_token_id=2,
    )
    XLMRobertaModel(config).eval().save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def write_current(
    folder: Path, *, seed: int = 0, dense: int | None = None, prompts: dict[str, str] | None = None
) -> Path:
    """A folder as the installed sentence-transformers saves it, with a Dense module of `dense` features."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.base.modules import Dense, Normalize, Transformer
    from sentence_transformers.sentence_transformer.modules import Pooling

    plain = write_plain(folder.with_name(folder.name + "-plain"), seed=seed)
    modules = [Transformer(str(plain)), Pooling(HIDDEN, pooling_mode="cls")]
    if dense is not None:
        torch.manual_seed(seed)
        modules.append(Dense(HIDDEN, dense))
    model = SentenceTransformer(modules=[*modules, Normalize()], device="cpu", prompts=prompts)
    model.save(str(folder), create_model_card=False)
    return folder


def write_older(folder: Path, *, seed: int = 0) -> Path:
    """A folder in the layout of BAAI/bge-m3, which sentence-transformers 2 wrote."""
    write_plain(folder, seed=seed)
    kinds = ["Transformer", "Pooling", "Normalize"]
    modules = [
        {
            "idx": number,
            "name": str(number),
            "path": f"{number}_{kind}" if number else "",
            "type": f"sentence_transformers.models.{kind}",
        }
        for number, kind in enumerate(kinds)
    ]
    pooling = {
        "word_embedding_dimension": HIDDEN,
        "pooling_mode_cls_token": True,
        "pooling_mode_mean_tokens": False,
        "pooling_mode_max_tokens": False,
        "pooling_mode_mean_sqrt_len_tokens": False,
    }
    versions = {"sentence_transformers": "2.2.2", "transformers": "4.33.0", "pytorch": "2.1.2+cu121"}
    write_json(folder / "modules.json", modules)
    write_json(folder / "1_Pooling" / "config.json", pooling)
    write_json(folder / "sentence_bert_config.json", {"max_seq_length": LIMIT, "do_lower_case": False})
    write_json(folder / "config_sentence_transformers.json", {"__version__": versions})
    return folder


def write_json(path: Path, content: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=2), encoding="utf-8")

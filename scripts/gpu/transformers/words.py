"""Tokenizers that are trained on the spot, a multilingual text, and a conversation for their chat template."""

import io
import json
import os

import sentencepiece as spm
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

TEXT = (
    "Hello WORLD, it's 12345 o'clock!\n\n  ok\t\tthere. Grüße aus Köln: naïve café, Ångström. こんにちは世界、カタカナ。"
    "你好，世界！ Привет, мир! 100 000 рублей. مرحبا بالعالم ١٢٣. ๑๒๓ ไทย. 안녕하세요 세계. Γειά σου Κόσμε. "
    "שלום עולם. 👩‍🚀 emoji 🚀🚀 don't, DON'T  a   b \n \n c\r\nd   camelCase HTTPServer i18n/l10n, 2024-11-16 ok   "
)
# libllama splits at combining marks under some rules and never joins decomposed letters.
MARKS = "हिन्दी टेक्स्ट, e\u0301t\u00e9"
CORPUS = [TEXT, TEXT.lower(), MARKS, "the quick brown fox jumps over the lazy dog and the end of the story is here " * 3]
MESSAGES = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "  Wie spät ist es? 👋\n"},
    {"role": "assistant", "content": "12:30 'Uhr'"},
    {"role": "user", "content": "Thanks & <bye>"},
]
TEMPLATE = """{{- bos_token }}
{%- for message in messages %}
    {%- if message['role'] == 'system' and loop.first %}
        {{- '<|im_start|>system\\n' + message['content'] | trim + '<|im_end|>\\n' }}
    {%- else %}
        {{- '<|im_start|>' ~ message.role ~ '\\n' ~ message.content | trim ~ '<|im_end|>\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}"""
SPECIAL = ["<s>", "</s>", "<|im_start|>", "<|im_end|>", "<|endoftext|>"]  # the last is required for a model named phi3

C = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
REST = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
SLASHES = r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
OTHER = r"[^\r\n\p{L}\p{N}]?"
PATTERNS = {
    "llama-3": rf"{C}|{OTHER}\p{{L}}+|\p{{N}}{{1,3}}|{REST}",
    "qwen": rf"{C}|{OTHER}\p{{L}}+|\p{{N}}|{REST}",
    "gpt-4o": rf"{OTHER}{UPPER}*{LOWER}+{C}?|{OTHER}{UPPER}+{LOWER}*{C}?|\p{{N}}{{1,3}}|{SLASHES}",
    "tekken": rf"{OTHER}{UPPER}*{LOWER}+|{OTHER}{UPPER}+{LOWER}*|\p{{N}}|{SLASHES}",
}


def byte_level(rules, into):
    """Byte-level BPE with the pre-tokenizer of a family. Returns the ids of TEXT and MARKS, and the number of tokens."""
    tokenizer = Tokenizer(models.BPE(ignore_merges=rules == "llama-3"))
    if rules == "gpt-2":
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
            pre_tokenizers.Split(Regex(PATTERNS[rules]), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ])
    if rules == "qwen":
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=700, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), special_tokens=SPECIAL,
    )
    tokenizer.train_from_iterator(CORPUS * 3, trainer)
    if rules == "llama-3":
        tokenizer.post_processor = processors.TemplateProcessing(
            single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", tokenizer.token_to_id("<s>"))]
        )
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="</s>")
    fast.chat_template = TEMPLATE
    fast.save_pretrained(into)
    ids = [tokenizer.encode(text, add_special_tokens=False).ids for text in (TEXT, MARKS)]
    return ids, tokenizer.get_vocab_size()


def sentencepiece(rules, into):
    """The same by SentencePiece: a folder that has only tokenizer.model."""
    model = io.BytesIO()
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter([line for text in CORPUS for line in text.split("\n")] * 3), model_writer=model,
        model_type="bpe", vocab_size=620, byte_fallback=True, character_coverage=0.98, hard_vocab_limit=False,
        add_dummy_prefix=rules == "llama", remove_extra_whitespaces=False, normalization_rule_name="identity",
        split_digits=True, user_defined_symbols=SPECIAL[2:], minloglevel=2,
    )
    with open(os.path.join(into, "tokenizer.model"), "wb") as file:
        file.write(model.getvalue())
    config = dict(
        tokenizer_class="LlamaTokenizer" if rules == "llama" else "GemmaTokenizer", bos_token="<s>", eos_token="</s>",
        unk_token="<unk>", add_bos_token=True, add_eos_token=False, chat_template=TEMPLATE,
    )
    with open(os.path.join(into, "tokenizer_config.json"), "w") as file:
        json.dump(config, file)
    processor = spm.SentencePieceProcessor(model_proto=model.getvalue())
    return [processor.encode(text) for text in (TEXT, MARKS)], processor.get_piece_size()

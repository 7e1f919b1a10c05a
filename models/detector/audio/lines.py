"""Which repositories of speech come from one line of systems: folds keep a line together, as they keep a repository together.

Demonstrations repeat each other's baselines, often the very clips. Where two pages share most systems, or a laboratory, they
are one line. Single baselines that recur everywhere (Tacotron 2, the vocoders) cannot be kept apart.
"""
LINES = {
    "google": ["google/tacotron", "wavegrad/wavegrad.github.io"],
    "vits": ["jaywalnut310/vits-demo", "jaywalnut310/glow-tts-demo", "rhasspy/piper-samples", "OlaWod/FreeVC-demo"],
    "mindslab": ["mindslab-ai/assem-vc", "mindslab-ai/cotatron", "mindslab-ai/phaseaug", "mindslab-ai/univnet"],
    "fastspeech with gan vocoders": ["jik876/hifi-gan-demo", "ming024/FastSpeech2"],
    "wavenet": ["r9y9/r9y9.github.io", "espnet/espnet-tts-sample", "diffwave-demo/diffwave-demo.github.io"],
    "zero-shot": ["ditto-tts/ditto-tts.github.io", "flashspeech/flashspeech.github.io", "e1tts/e1tts.github.io",
                  "MobileSpeech/MobileSpeech.github.io", "index-tts/index-tts.github.io"],
    "flow and diffusion": ["grad-tts/grad-tts.github.io", "shivammehta25/Matcha-TTS"],
    "conversion by bottleneck": ["auspicious3000/autovc-demo", "auspicious3000/SpeechSplit-Demo",
                                 "liusongxiang/StarGAN-Voice-Conversion"],
    "spoken translation": ["TranSpeech/TranSpeech.github.io", "M-Transpeech/M-Transpeech.github.io"],
}
LINE_OF = {repository: line for line, repositories in LINES.items() for repository in repositories}


def family_of(repository):
    """The line; a repository that belongs to none is one of its own."""
    return LINE_OF.get(repository, repository.lower())

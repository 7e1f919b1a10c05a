/** The architectures that the bundled libllama runs. A file of another one is refused when it is imported. */

// biome-ignore format: a list should look like one
export const RUNNABLE: readonly string[] = [
  "llama", "llama4", "deci", "falcon", "grok", "gpt2", "gptj", "gptneox", "mpt", "baichuan", "starcoder", "refact",
  "bert", "modern-bert", "nomic-bert", "nomic-bert-moe", "neo-bert", "jina-bert-v2", "jina-bert-v3", "eurobert",
  "bloom", "stablelm", "qwen", "qwen2", "qwen2moe", "qwen2vl", "qwen3", "qwen3moe", "qwen3next", "qwen3vl",
  "qwen3vlmoe", "qwen35", "qwen35moe", "phi2", "phi3", "phimoe", "plamo", "plamo2", "plamo3", "codeshell", "orion",
  "internlm2", "minicpm", "minicpm3", "gemma", "gemma2", "gemma3", "gemma3n", "gemma4", "gemma4-assistant",
  "gemma-embedding", "starcoder2", "mamba", "mamba2", "jamba", "falcon-h1", "xverse", "command-r", "cohere2",
  "cohere2moe", "dbrx", "olmo", "olmo2", "olmoe", "muse-glimmer", "openelm", "arctic", "deepseek", "deepseek2",
  "deepseek2-ocr", "deepseek32", "deepseek4", "chatglm", "glm4", "glm4moe", "glm-dsa", "bitnet", "jais", "jais2",
  "nemotron", "nemotron_h", "nemotron_h_moe", "exaone", "exaone4", "exaone-moe", "rwkv6", "rwkv6qwen2", "rwkv7",
  "arwkv7", "granite", "granitemoe", "granitehybrid", "graniteswitch", "granite_swa", "chameleon", "plm",
  "bailingmoe", "bailingmoe2", "bailingmoe3", "dots1", "dots3note", "arcee", "afmoe", "laguna", "ernie4_5",
  "ernie4_5-moe", "hunyuan-moe", "hunyuan-dense", "hunyuan_vl", "hy_v3", "smollm3", "gpt-oss", "lfm2", "lfm2moe",
  "smallthinker", "seed_oss", "grovemoe", "apertus", "minimax-01", "minimax-m2", "minimax-m3", "cogvlm",
  "pangu-embedded", "mistral3", "mistral4", "paddleocr", "mimo2", "step35", "llama-embed", "maincoder",
  "kimi-linear", "kimi-k3", "talkie", "mellum", "nanbeige",
];

/** Architectures that the library knows and that cannot be served, each with its reason. */
const OTHERS: Record<string, string> = {
  t5: "an encoder with a decoder",
  t5encoder: "the encoder of a T5 model",
  dream: "a diffusion model",
  llada: "a diffusion model",
  "llada-moe": "a diffusion model",
  rnd1: "a diffusion model",
  eagle3: "a draft model for another model",
  dflash: "a draft model for another model",
  "wavtokenizer-dec": "a decoder of sound",
  qwen3tts: "a model that speaks",
  pockettts: "a model that speaks",
};

const LEFT_TO_OTHERS = ["clip"]; // projectors have checks of their own

/** Continues the sentence "The model cannot be served:". Undefined if it can. */
export function whyNotRunnable(architecture: string): string | undefined {
  if (RUNNABLE.includes(architecture) || LEFT_TO_OTHERS.includes(architecture)) return undefined;
  const kind = Object.hasOwn(OTHERS, architecture) ? OTHERS[architecture] : undefined;
  if (kind !== undefined) return `${architecture} is ${kind}. Only models that write text or embed it can be served`;
  return `its architecture ${architecture} is not known to this version. Convert the model to a known one, or update Verk`;
}

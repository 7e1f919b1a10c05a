/** Model files of other formats, and how to make a GGUF file of them. */

const WEIGHTS = /\.(safetensors|bin|pt|pth)$/i;

/** True for the files of a model folder as Hugging Face libraries write it. */
export const isHuggingFaceFolder = (files: readonly string[]): boolean =>
  files.includes("config.json") || files.some((name) => WEIGHTS.test(name));

export const isSafetensors = (path: string): boolean => /\.safetensors$/i.test(path);

/** Continues a sentence that says what was found. `dir`: the folder to convert. */
export const convertHint = (dir: string): string =>
  `Verk reads GGUF files. Convert the folder with llama.cpp (\`python convert_hf_to_gguf.py ${dir} --outfile model.gguf\`) and run \`verk models import model.gguf\`, or pull a GGUF version with \`verk models pull OWNER/REPO-GGUF\``;

/** The one message for a Hugging Face folder. */
export const folderHint = (dir: string): string =>
  `${dir} is a Hugging Face model folder (safetensors). ${convertHint(dir)}`;

export const safetensorsHint = (path: string, dir: string): string =>
  `${path} is a safetensors file of a Hugging Face model. ${convertHint(dir)}`;

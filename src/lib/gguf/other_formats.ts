/** Model files of other formats, and how to import them. */

const WEIGHTS = /\.(safetensors|bin|pt|pth)$/i;

/** True for the files of a model folder as Hugging Face libraries write it. */
export const isHuggingFaceFolder = (files: readonly string[]): boolean =>
  files.includes("config.json") || files.some((name) => WEIGHTS.test(name));

export const isSafetensors = (path: string): boolean => /\.safetensors$/i.test(path);

/** The one message for a Hugging Face folder where a model's name is expected. */
export const folderHint = (dir: string): string =>
  `${dir} is a Hugging Face model folder. Import it with \`verk models import ${dir}\``;

export const safetensorsHint = (path: string, dir: string): string =>
  `${path} is a safetensors file of a Hugging Face model. Import its folder with \`verk models import ${dir}\``;

/** The message for a folder that lacks what an import needs. */
export function incompleteFolder(dir: string, files: readonly string[]): string {
  if (files.some(isSafetensors)) return `${dir} has no config.json: copy the whole model folder`;
  return `${dir} has no safetensors file, only ${files.filter((name) => WEIGHTS.test(name))[0] ?? "config.json"}: use a version of the model with safetensors`;
}

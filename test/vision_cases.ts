/** Cases for the comparison with llama.cpp: a language model, its projector and a picture. */
import type { ModelOptions } from "./models.ts";
import type { ProjectorOptions } from "./projectors.ts";

export type VisionCase = {
  model: ModelOptions;
  projector: ProjectorOptions;
  picture: { width: number; height: number; seed: number };
};

const FAKE = "<fake_token_around_image>";
const squares = Array.from({ length: 16 }, (_, i) => `<row_${Math.floor(i / 4) + 1}_col_${(i % 4) + 1}>`);
const IDEFICS = ["\n\n", FAKE, "<global-img>", ...squares];
const GEMMA = ["<start_of_image>", "<end_of_image>"];
const llama: ModelOptions = { arch: "llama", type: "F32", context: 2048 };

export const VISION_CASES: Record<string, VisionCase> = {
  llava: {
    model: llama,
    projector: { kind: "mlp", outputs: 64, seed: 3, imageSize: 56, patchSize: 14, type: "F16" },
    picture: { width: 90, height: 61, seed: 4 },
  },
  idefics3: {
    model: { ...llama, extraVocab: IDEFICS },
    projector: { kind: "idefics3", outputs: 64, seed: 5, imageSize: 32, longestEdge: 96 },
    picture: { width: 120, height: 70, seed: 6 },
  },
  "idefics3 without a longest edge": {
    model: { ...llama, extraVocab: IDEFICS },
    projector: { kind: "idefics3", outputs: 64, seed: 7, imageSize: 32 },
    picture: { width: 75, height: 50, seed: 8 },
  },
  gemma3: {
    model: { ...llama, arch: "gemma3", extraVocab: GEMMA, layers: 6, sharpness: 0.5 },
    projector: { kind: "gemma3", outputs: 64, seed: 9, imageSize: 48, merge: 3, patchSize: 8 },
    picture: { width: 47, height: 83, seed: 10 },
  },
};

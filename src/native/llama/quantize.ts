/**
 * The quantizer of libllama, which mixes types as a name such as Q4_K_M promises. It blocks its thread for minutes and
 * may end the process, so only child processes use it.
 */
import { dlopen, ptr } from "bun:ffi";
import { basename } from "node:path";
import { cstr, text } from "../ffi.ts";
import { DEFAULTS_WORDS } from "../shim/shim.ts";
import { llamaLibraries } from "./libraries.ts";
import { openLlama } from "./symbols.ts";

const SYMBOLS = {
  llama_model_quantize: { args: ["ptr", "ptr", "ptr"], returns: "u32" },
} as const;

/** Numbers of `general.file_type`. */
export const QUANTIZATIONS = { Q8_0: 7, Q4_K_M: 15, Q5_K_M: 17, Q6_K: 18 } as const;
export type Quantization = keyof typeof QUANTIZATIONS;

/** struct llama_model_quantize_params as 32-bit words, with the defaults of the embedded version. */
const AT = { threads: 0, fileType: 1 } as const;
const TYPE_COUNT = 43; // means that no type is chosen
const OUTPUT_TOO = 0x0100; // the second of the flags: quantize_output_tensor
// biome-ignore format: a table should look like one
const DEFAULTS = [0, 7, TYPE_COUNT, TYPE_COUNT, OUTPUT_TOO, null, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];

export type QuantizeOptions = { from: string; to: string; quantization: Quantization; threads: number };

/** Writes `to` gradually, so the caller passes a temporary name. */
export function quantizeModel(dataDir: string, want: { cuda: boolean }, options: QuantizeOptions) {
  const llama = openLlama(dataDir, want); // Its log has the reason of a failure.
  const quantizer = dlopen(llamaLibraries(dataDir, want).files.llama, SYMBOLS).symbols;
  const params = new Int32Array(2 * DEFAULTS_WORDS);
  llama.llama_model_quantize_default_params(params);
  if (DEFAULTS.some((value, i) => value !== null && params[i] !== value))
    throw new Error(
      `libllama ${text(llama.llama_version())} has another layout of quantizer parameters than this program was built for`,
    );
  params[AT.threads] = options.threads;
  params[AT.fileType] = QUANTIZATIONS[options.quantization];
  llama.forgetError();
  const [from, to] = [cstr(options.from), cstr(options.to)];
  const code = quantizer.llama_model_quantize(ptr(from), ptr(to), ptr(params));
  if (code !== 0)
    throw new Error(`${basename(options.from)} could not be quantized: ${llama.firstError() || "no reason given"}`);
}

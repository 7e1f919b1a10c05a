import { z } from "zod";
import { QUANTIZATIONS } from "../lib/checkpoints/mix.ts";
import { later } from "../lib/schema.ts";
import { fromWorker, ModelShape } from "./protocol.ts";

/** The inspector reads model files and archives, so that no outside file is parsed in the server. */
export const ToInspector = later(() =>
  z.discriminatedUnion("type", [
    z.strictObject({ type: z.literal("inspect"), path: z.string(), hash: z.boolean() }),
    /** Hash a file of any kind, without reading it as a model. */
    z.strictObject({ type: z.literal("hash"), path: z.string() }),
    /** Put the model inside the executable at `path`; `sha256` is its hash. */
    z.strictObject({ type: z.literal("place"), path: z.string(), sha256: z.string() }),
    z.strictObject({
      type: z.literal("unpack"),
      path: z.string(),
      /** `tar`: made by this program, of files of one job. Its limits are `limits`. */
      format: z.enum(["tar.gz", "zip", "tar"]),
      limits: z.strictObject({ entries: z.int().positive(), bytes: z.number().positive() }).optional(),
      /** An empty directory and the owner of the new files. Null: only check that the archive can be unpacked. */
      into: z
        .strictObject({ dir: z.string(), owner: z.strictObject({ uid: z.int(), gid: z.int() }).nullable() })
        .nullable(),
    }),
    /** Check what a Hugging Face folder is without its weights, which may not be here yet. */
    z.strictObject({ type: z.literal("check"), path: z.string(), files: z.record(z.string(), z.string()) }),
    /** Convert a Hugging Face folder to the GGUF file `into`, or join a split one. `path` names the folder in answers. */
    z.strictObject({
      type: z.literal("convert"),
      path: z.string(),
      /** Name of the model inside the new file. */
      name: z.string(),
      /** Name in the folder → path of the file. */
      files: z.record(z.string(), z.string()),
      into: z.string(),
      quantize: z.enum(QUANTIZATIONS).nullable(),
      /** Data directory, with the native libraries. */
      data_dir: z.string(),
    }),
    /** Quantize the GGUF file `path` into the new file `into`. */
    z.strictObject({
      type: z.literal("quantize"),
      path: z.string(),
      into: z.string(),
      quantization: z.enum(QUANTIZATIONS),
      threads: z.int().positive(),
      data_dir: z.string(),
    }),
    /** Say if our kernels decode the model. */
    z.strictObject({ type: z.literal("kernels"), path: z.string() }),
  ]),
);
export type ToInspector = z.infer<typeof ToInspector>;

export const FromInspector = later(() =>
  fromWorker([
    z.strictObject({ type: z.literal("hashing"), path: z.string(), progress: z.number().min(0).max(1) }),
    z.strictObject({
      type: z.literal("inspected"),
      path: z.string(),
      shape: ModelShape,
      size_bytes: z.int(),
      sha256: z.string().nullable(),
    }),
    z.strictObject({ type: z.literal("hashed"), path: z.string(), size_bytes: z.int(), sha256: z.string() }),
    z.strictObject({ type: z.literal("placed"), path: z.string() }),
    /** Every entry was unpacked. */
    z.strictObject({
      type: z.literal("unpacked"),
      path: z.string(),
      file_count: z.int(),
      unpacked_bytes: z.int(),
    }),
    z.strictObject({ type: z.literal("checked"), path: z.string() }),
    z.strictObject({ type: z.literal("converting"), path: z.string(), progress: z.number().min(0).max(1) }),
    z.strictObject({
      type: z.literal("converted"),
      path: z.string(),
      shape: ModelShape,
      size_bytes: z.int(),
      sha256: z.string(),
    }),
    z.strictObject({
      type: z.literal("quantized"),
      path: z.string(),
      shape: ModelShape,
      size_bytes: z.int(),
      sha256: z.string(),
    }),
    z.strictObject({ type: z.literal("kernels"), path: z.string(), reason: z.string().nullable() }),
    z.strictObject({ type: z.literal("refused"), path: z.string(), error: z.string() }),
  ]),
);
export type FromInspector = z.infer<typeof FromInspector>;

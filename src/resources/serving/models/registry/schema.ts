/** Requests and answers of the routes that manage the models of the registry. */
import { z } from "zod";
import { QUANTIZATIONS } from "../../../../lib/checkpoints/mix.ts";
import { KV_TYPES } from "../../../../lib/gguf/memory.ts";
import { isId } from "../../../../lib/ids.ts";
import { DateTime, Label, later, numberText } from "../../../../lib/schema.ts";
import { METHODS } from "../../../../lib/training/fields.ts";
import { DEPENDENT_KINDS } from "./dependents.ts";

export const ModelName = Label(200).refine((name) => !isId(name, "mdl"), "must not look like a model id");

export const QuantizeModel = z
  .object({
    quantization: z.enum(QUANTIZATIONS),
    name: ModelName.optional().describe("Default: the name of the model with the quantization: qwen3-q4_k_m"),
  })
  .meta({ id: "QuantizeModel" });
export type QuantizeModel = z.infer<typeof QuantizeModel>;

export const RenameModel = z.object({ name: ModelName }).meta({ id: "RenameModel" });

export const ModelFile = later(() =>
  z
    .object({
      object: z.literal("model_file"),
      model_id: z.string(),
      url: z.string().describe("Needs no API key"),
      expires_at: DateTime,
      file_name: z.string(),
      size_bytes: z.int(),
      sha256: z.string().nullable(),
    })
    .meta({ id: "ModelFile" }),
);
export type ModelFile = z.infer<typeof ModelFile>;

export const ModelDependents = later(() =>
  z
    .object({
      object: z.literal("model.dependents"),
      model_id: z.string(),
      dependents: z
        .array(
          z.object({
            kind: z.enum(DEPENDENT_KINDS).describe("copy: a quantized copy that is still being made"),
            id: z.string(),
            name: z.string(),
            status: z.string(),
          }),
        )
        .describe("Active deployments, jobs that have not ended, adapters, copies: at most 50 of each"),
    })
    .meta({ id: "ModelDependents" }),
);
export type ModelDependents = z.infer<typeof ModelDependents>;

export const CapabilitiesQuery = z.object({
  context_length: numberText(z.int().min(1).max(10_000_000))
    .optional()
    .describe("Tokens of one conversation. Default: that of the server. At most that of the model"),
  parallel: numberText(z.int().min(1).max(1_000)).optional().describe("Conversations at once"),
  kv_type: z.enum(KV_TYPES).optional().describe("Numbers of keys and values"),
});
export type CapabilitiesQuery = z.infer<typeof CapabilitiesQuery>;

const bytes = () => z.int().min(0);

export const ModelCapabilities = later(() =>
  z
    .object({
      object: z.literal("model.capabilities"),
      model_id: z.string(),
      context_length: z.int().nullable().describe("Of the memory below"),
      parallel: z.int(),
      memory: z
        .object({
          weights_bytes: bytes(),
          cache_bytes: bytes(),
          compute_bytes: bytes(),
          adapter_bytes: bytes(),
          projector_bytes: bytes(),
          total_bytes: bytes(),
          fits: z.boolean().describe("A device of this machine is large enough when nothing else runs"),
          reason: z.string().nullable(),
        })
        .nullable()
        .describe("An estimate; null: the model, or the base model of an adapter, is not here"),
      serving: z.object({
        works_as: z.enum(["chat", "completion", "embedding"]).nullable().describe("null: it cannot be served now"),
        reads_images: z.boolean(),
        decoder: z.enum(["own", "library"]).nullable().describe("Decoder on this machine: Verk's kernels, or libllama"),
        reason: z.string().nullable().describe("Why the library decodes, or why the model cannot be served"),
        on_gpus: z
          .object({ decoder: z.enum(["own", "library"]), reason: z.string().nullable() })
          .nullable()
          .describe("Decoder on a GPU that Verk's kernels support"),
      }),
      training: z.object({
        methods: z.array(z.enum(METHODS)).describe("Empty: it cannot be trained"),
        reason: z.string().nullable(),
        exact_sampling: z
          .object({ possible: z.boolean(), reason: z.string().nullable() })
          .nullable()
          .describe("GRPO and RLOO with a LoRA on GPUs: the sampler's log-probabilities equal the trainer's"),
      }),
      quantizations: z.array(z.enum(QUANTIZATIONS)).describe("Types that it can be quantized to"),
      deployments: z
        .array(z.object({ id: z.string(), name: z.string(), status: z.string() }))
        .describe("Active deployments that serve it, at most 50"),
    })
    .meta({ id: "ModelCapabilities" }),
);
export type ModelCapabilities = z.infer<typeof ModelCapabilities>;

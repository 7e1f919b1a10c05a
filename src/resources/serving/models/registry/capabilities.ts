/** Says what a model can do here: how it is served, trained and quantized, and the memory that it needs. */
import type { Ctx } from "../../../../context.ts";
import { QUANTIZATIONS } from "../../../../lib/checkpoints/mix.ts";
import { ARCHITECTURES } from "../../../../lib/gguf/architecture.ts";
import { METHODS } from "../../../../lib/training/fields.ts";
import * as gpu from "../../../machines/gpu/service.ts";
import { type DecoderChoice, decoderFor } from "../../deployments/fleet/decoder_choice.ts";
import { memoryOf, type Parts, partsOf } from "../../deployments/fleet/parts.ts";
import { whyNever } from "../../deployments/policy.ts";
import { reasonAgainstKernels } from "../files/inspect.ts";
import * as models from "../service.ts";
import type { ModelRow } from "../table.ts";
import { dependentsOf } from "./dependents.ts";
import { whyNotQuantizable } from "./quantize.ts";
import type { CapabilitiesQuery, ModelCapabilities } from "./schema.ts";

type Devices = Awaited<ReturnType<typeof gpu.devices>>;

export async function capabilitiesOf(
  ctx: Ctx,
  workspaceId: string,
  name: string,
  query: CapabilitiesQuery,
): Promise<ModelCapabilities> {
  const row = models.mustGet(ctx, workspaceId, name);
  const parts = partsOf(ctx, workspaceId, row);
  const devices = await gpu.devices(ctx);
  const notOwn = await reasonOfHeader(ctx, workspaceId, parts);
  const kvType = query.kv_type ?? ctx.config.serving.kv_type;
  const parallel = query.parallel ?? ctx.config.serving.parallel;
  const cards = devices.filter(({ type }) => type !== "cpu").map(({ id }) => id);
  const decoder = await decoderFor(ctx, { sha256: parts?.base.sha256 ?? null, parallel, cards });
  const most = parts?.base.contextLength ?? row.contextLength;
  const wanted = query.context_length ?? ctx.config.serving.context_length;
  const contextLength = most === null ? null : Math.min(wanted, most);
  return {
    object: "model.capabilities",
    model_id: row.id,
    context_length: contextLength,
    parallel,
    memory: contextLength === null ? null : memory(parts, { contextLength, parallel, kvType }, devices),
    serving: serving(ctx, { row, parts, devices, notOwn, decoder }),
    training: training(ctx, { row, parts, notOwn }),
    quantizations: whyNotQuantizable(row) === undefined ? [...QUANTIZATIONS] : [],
    deployments: dependentsOf(ctx, row, workspaceId)
      .filter(({ kind }) => kind === "deployment")
      .map(({ id, name: shown, status }) => ({ id, name: shown, status })),
  };
}

/** The main memory is a device of a machine without a GPU. */
function memory(parts: Parts | undefined, size: models.ReplicaSize, devices: Devices): ModelCapabilities["memory"] {
  if (!parts?.base.shape) return null;
  const { weights, kv, compute, adapter, projector, total } = memoryOf(parts, size);
  const types = new Set(devices.map(({ type }) => type));
  const whys = [...types].map((type) => whyNever(devices, { type, count: 1, bytes: total }));
  const fits = whys.some((why) => why === undefined);
  return {
    weights_bytes: weights,
    cache_bytes: kv,
    compute_bytes: compute,
    adapter_bytes: adapter,
    projector_bytes: projector,
    total_bytes: total,
    fits,
    reason: fits ? null : (whys[0] ?? "this machine has no device"),
  };
}

/** Why our kernels do not decode the base model; null: they do, or its file cannot be read now. */
async function reasonOfHeader(ctx: Ctx, workspaceId: string, parts: Parts | undefined): Promise<string | null> {
  if (!parts || !("ready" in models.usability(ctx, parts.base)) || parts.base.shape?.encoder) return null;
  return reasonAgainstKernels(ctx, workspaceId, models.pathOf(ctx, parts.base));
}

type Facts = { row: ModelRow; parts: Parts | undefined; notOwn: string | null };
type Subject = Facts & { devices: Devices; decoder: DecoderChoice };
type Serving = ModelCapabilities["serving"];

function serving(ctx: Ctx, subject: Subject): Serving {
  const { row, parts, devices } = subject;
  const not = (reason: string): Serving => ({
    works_as: null,
    reads_images: false,
    decoder: null,
    reason,
    on_gpus: null,
  });
  if (!parts) return not("it is an adapter, and its base model is not known or not here");
  for (const each of [row, parts.base]) {
    const use = models.usability(ctx, each);
    if (!("ready" in use)) return not(each === row ? `it ${use.reason}` : `its base model ${each.name} ${use.reason}`);
  }
  const { base, projector } = parts;
  const reads = projector !== undefined;
  const works = base.shape?.encoder ? "embedding" : base.shape?.has_chat_template ? "chat" : "completion";
  const about = { works_as: works, reads_images: reads } as const;
  const reason = reasonForLibrary(ctx, subject, parts);
  const onGpus = { decoder: reason === null ? "own" : "library", reason } as const;
  if (devices.some(({ type }) => type !== "cpu")) return { ...about, ...onGpus, on_gpus: onGpus };
  return { ...about, decoder: "library", reason: "this machine has no GPU", on_gpus: onGpus };
}

/** Why the library decodes this model on a GPU too; null: our kernels do. As the serving process decides. */
function reasonForLibrary(ctx: Ctx, { notOwn, decoder }: Subject, { base, projector }: Parts) {
  if (base.shape?.encoder) return "it embeds texts";
  if (ctx.config.serving.decoder === "library") return 'serving.decoder is "library"';
  if (decoder === "library") return "llama.cpp was measured to be faster";
  if (projector) return "it reads images";
  return notOwn === null ? null : `Verk's kernels do not decode ${notOwn}`;
}

type Training = ModelCapabilities["training"];

function training(ctx: Ctx, { row, parts, notOwn }: Facts): Training {
  const not = (reason: string): Training => ({ methods: [], reason, exact_sampling: null });
  if (!parts) return not("its base model is not known or not here");
  const use = models.usability(ctx, parts.base);
  if (!("ready" in use)) return not(`${row.id === parts.base.id ? "it" : "its base model"} ${use.reason}`);
  const { architecture, quantization } = parts.base;
  if (!ARCHITECTURES.some((each) => each === architecture))
    return not(`its architecture ${architecture} is only served; ${ARCHITECTURES.join(", ")} can be trained`);
  const exact = reasonNotExact(quantization, notOwn);
  return {
    methods: [...METHODS],
    reason: null,
    exact_sampling: { possible: exact === null, reason: exact },
  };
}

function reasonNotExact(quantization: string | null, notOwn: string | null): string | null {
  if (quantization !== "BF16" && quantization !== "F16")
    return `its weights are in ${quantization}, and exact sampling needs BF16 or F16`;
  return notOwn === null ? null : `Verk's kernels do not draw from ${notOwn}`;
}

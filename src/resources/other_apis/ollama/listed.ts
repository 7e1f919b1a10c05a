/** Models as Ollama lists and shows them. Pure. */
import type { Model } from "../../serving/models/schema.ts";

/** 1_235_814_400 → 1.2B, as Ollama writes it. */
export function sizeText(parameters: number | null): string {
  if (parameters === null) return "";
  const [unit, letter] = parameters >= 1e9 ? [1e9, "B"] : parameters >= 1e6 ? [1e6, "M"] : [1e3, "K"];
  return `${(parameters / unit).toFixed(1)}${letter}`;
}

const detailsOf = ({ base_model, format, architecture, parameters, quantization }: Model) => ({
  parent_model: base_model ?? "",
  format,
  family: architecture ?? "",
  families: architecture === null ? [] : [architecture],
  parameter_size: sizeText(parameters),
  quantization_level: quantization ?? "",
});

export const toTag = (model: Model) => ({
  name: model.id,
  model: model.id,
  modified_at: model.updated_at,
  size: model.size_bytes ?? 0,
  digest: model.sha256 ?? "",
  details: detailsOf(model),
});

const NEVER = "9999-12-31T23:59:59Z"; // the deployment decides when it is parked

export const isLoaded = ({ deployment }: Model) => deployment?.status === "serving" && !deployment.parked;

export const toLoaded = (model: Model) => ({
  ...toTag(model),
  expires_at: NEVER,
  size_vram: model.size_bytes ?? 0,
  context_length: model.context_length ?? 0,
});

export function toShown(model: Model) {
  const { architecture, parameters, context_length, has_chat_template, updated_at } = model;
  const family = architecture ?? "unknown";
  return {
    modelfile: `FROM ${model.name}\n`,
    parameters: "",
    template: "",
    details: detailsOf(model),
    model_info: {
      "general.architecture": family,
      "general.parameter_count": parameters,
      [`${family}.context_length`]: context_length,
    },
    capabilities: ["completion", ...(has_chat_template ? ["tools"] : [])],
    modified_at: updated_at,
  };
}

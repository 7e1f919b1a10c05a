/** The plan of an encoder's GGUF file, from a Hugging Face folder. */

import { CheckpointError } from "../../../lib/checkpoints/families.ts";
import type { Metadata, TensorSource } from "../../../lib/gguf/write.ts";
import { count } from "../../checkpoints/config.ts";
import {
  type Encoder,
  encoderMetadata,
  encoderTensors,
  isUnusedInEncoder,
  plainEncoderName,
  poolingTypeOf,
  requireEncoder,
} from "../../checkpoints/encoder.ts";
import { generalMetadata } from "../../checkpoints/metadata.ts";
import { otherAddedTokens } from "../../checkpoints/tokenizer/special.ts";
import { wordPieceMetadata } from "../../checkpoints/tokenizer/wordpiece.ts";
import { type Folder, type StoredTensor, shown } from "./folder.ts";
import { MAX_LAYERS, sourceOf, type Target } from "./sources.ts";

type Plan = { metadata: Metadata; sources: TensorSource[] };

export function planOfEncoder(encoder: Encoder, { small, tensors }: Folder, name: string, target: Target): Plan {
  const { config } = small;
  requireEncoder(config);
  const sources = encoderSources(encoder, config, tensors, target);
  const rows = (gguf: string) => sources.find((source) => source.name === gguf)?.dims[1] ?? 0;
  const facts = {
    encoder,
    config,
    pooling: poolingTypeOf(encoder, small),
    labels: rows("cls.output.weight"),
  };
  const type = target.quantize ?? sources[0]?.type ?? "F32";
  const tokenizer = wordPieceMetadata(small, rows("token_embd.weight"), otherAddedTokens(small), encoder.ranks);
  return {
    metadata: new Map([...generalMetadata(name, encoder.architecture, type), ...encoderMetadata(facts), ...tokenizer]),
    sources,
  };
}

function encoderSources(
  encoder: Encoder,
  config: Folder["small"]["config"],
  stored: Folder["tensors"],
  target: Target,
): TensorSource[] {
  const layers = count(config, "num_hidden_layers");
  if (layers < 1 || layers > MAX_LAYERS)
    throw new CheckpointError(`config.json has ${layers} layers, which is out of range`);
  const heads = count(config, "num_attention_heads");
  const model = {
    architecture: encoder.architecture,
    layers,
    experts: 0,
    heads,
    kvHeads: heads,
    hasOutput: false,
  };
  const tensors = new Map<string, StoredTensor>();
  for (const [full, tensor] of stored) {
    const name = plainEncoderName(full);
    if (isUnusedInEncoder(name, encoder)) continue;
    if (tensors.has(name)) throw new CheckpointError(`The folder has the tensor ${shown(name)} under two names`);
    tensors.set(name, tensor);
  }
  const used = new Set<string>();
  const sources = encoderTensors(encoder, layers).flatMap(
    (name) => sourceOf({ name, tensors, config, used, model, ...target }) ?? [],
  );
  for (const [name, { file }] of tensors)
    if (!used.has(name))
      throw new CheckpointError(`${file} has the tensor ${shown(name)}, which this architecture does not have`);
  return sources;
}

/**
 * The facts that a deployment needs to reserve memory for a model. `ModelShape` of the worker protocol is its schema.
 */
export type ModelShape = {
  architecture: string;
  parameters: number;
  context_length: number;
  quantization: string;
  layers: number;
  embedding_length: number;
  heads: number;
  kv_heads: number;
  key_length: number;
  value_length: number;
  vocab_size: number;
  weight_bytes: number;
  name: string | null;
  has_chat_template: boolean;
  type: "model" | "adapter";
  /** The model computes embeddings or scores, but no text. */
  encoder?: true | undefined;
  /** Experts of a layer, and those that compute a token. Absent in rows that were stored before it existed. */
  experts?: { count: number; used: number } | undefined;
  /** Settings of an adapter, if all its matrices have the same rank. `target_modules` are PEFT's names. */
  lora?: { r: number; alpha: number; target_modules: string[] } | undefined;
};

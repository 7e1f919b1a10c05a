/** Adapter settings: target matrices and rank. Names are PEFT's outside and GGUF's inside. */
import { z } from "zod";
import { HAS_EXPERTS } from "../gguf/architecture.ts";
import { later } from "../schema.ts";

// biome-ignore format: a table should look like one
export const MODULES = {
  q_proj: "attn_q", k_proj: "attn_k", v_proj: "attn_v", o_proj: "attn_output",
  gate_proj: "ffn_gate", up_proj: "ffn_up", down_proj: "ffn_down",
} as const;
export type Module = keyof typeof MODULES;
export const ALL_LINEAR = Object.keys(MODULES) as Module[];

const modules = later(() =>
  z
    .union([
      z.literal("all-linear"),
      z
        .array(z.enum(ALL_LINEAR as [Module, ...Module[]]))
        .min(1)
        .max(64),
    ])
    .transform((names) =>
      names === "all-linear" ? [...ALL_LINEAR] : ALL_LINEAR.filter((each) => names.includes(each)),
    ),
);

/** Strict like the hyperparameters: a typo costs GPU hours. */
export const LoraSettings = later(() =>
  z.strictObject({
    r: z.int().min(1).max(1024).default(16),
    alpha: z.number().positive().max(65_536).default(32),
    dropout: z.number().min(0).lt(1).default(0),
    target_modules: modules.default([...ALL_LINEAR]),
    use_rslora: z.boolean().default(false),
  }),
);
export type LoraSettings = z.output<typeof LoraSettings>;

export const ggufTargets = ({ target_modules }: LoraSettings): string[] => target_modules.map((name) => MODULES[name]);

/** The only matrices of a model with experts that have adapters. */
const ATTENTION = ALL_LINEAR.filter((name) => MODULES[name].startsWith("attn_"));

export type Fitted = { ok: LoraSettings | null } | { field: "lora" | "target_modules"; why: string };

/** Settings for a model of this family. All modules mean all that the family has adapters of. */
export function loraFor(lora: LoraSettings | null, architecture: string): Fitted {
  if (!HAS_EXPERTS.includes(architecture)) return { ok: lora };
  const rule = `${architecture} has experts: only adapters of its attention are trained`;
  if (lora === null) return { field: "lora", why: `${rule}; give lora` };
  const { target_modules: targets } = lora;
  if (ALL_LINEAR.every((name) => targets.includes(name))) return { ok: { ...lora, target_modules: [...ATTENTION] } };
  const others = targets.filter((name) => !ATTENTION.includes(name));
  if (others.length === 0) return { ok: lora };
  return { field: "target_modules", why: `${rule}; leave out ${others.join(", ")}, or use ${ATTENTION.join(", ")}` };
}

/** The price file: its shape, and what is wrong with one, by the name of the key. */
import { z } from "zod";
import { UsageError } from "./errors.ts";
import { later } from "./schema.ts";
import { plainIssue } from "./text/issue.ts";
import { nearest } from "./text/nearest.ts";

/** Types that every price list speaks of; a file may name more. */
const GPU_TYPES = ["A100-40GB", "A100-80GB", "H100", "H200", "L40S", "MI300X"] as const;
export const LOCAL = "local";

const Usd = z.number().min(0).max(100_000);
const Share = z.number().min(0).max(10);
const KEY = /^[A-Za-z0-9][\w.-]{0,63}$/;
const Key = z.string().regex(KEY, "expected a name of letters, digits, . _ and -");
const plain = (type: string) => type.toUpperCase().replaceAll(/[^A-Z0-9]/g, "");

const GpuType = Key.superRefine((type, { addIssue }) => {
  const meant = GPU_TYPES.find((name) => name !== type && plain(name) === plain(type));
  if (meant) addIssue({ code: "custom", message: `this type is written ${meant}` });
});
const Rates = z.record(GpuType, Usd);
const Device = later(() =>
  z.strictObject({ watts: z.number().min(0).max(100_000), price_usd: z.number().min(0).max(10_000_000) }),
);
const extras = () => ({ storage_usd_per_gib_month: Usd.default(0), overhead_share: Share.default(0) });

const Provider = later(() =>
  z.strictObject({
    rates: Rates.refine((rates) => Object.keys(rates).length > 0, "names no GPU type"),
    discounts: z.record(Key, z.number().min(0).max(1)).default({}),
    ...extras(),
  }),
);

const Local = later(() =>
  z.strictObject({
    tariff_usd_per_kwh: z.number().min(0).max(1000),
    lifetime_hours: z.number().min(1).max(1_000_000),
    other: Device,
    devices: z.record(GpuType, Device),
    rates: Rates.default({}),
    ...extras(),
  }),
);

const PerMillion = () => Usd.default(0);
/** Dollars for a million tokens. */
const Tokens = later(() =>
  z.strictObject({ prompt_usd: PerMillion(), cached_usd: PerMillion(), completion_usd: PerMillion() }),
);

const Pricing = later(() =>
  z
    .strictObject({
      default_provider: z.string(),
      disk_gib: z.number().min(0).max(1_000_000),
      tokens: Tokens.prefault({}),
      local: Local,
      providers: z.record(Key, Provider).default({}),
    })
    .superRefine(({ default_provider, providers }, { addIssue }) => {
      if (LOCAL in providers)
        addIssue({
          code: "custom",
          path: ["providers", LOCAL],
          message: "this machine has a section of its own: [local]",
        });
      const names = [LOCAL, ...Object.keys(providers)];
      if (!names.includes(default_provider))
        addIssue({ code: "custom", path: ["default_provider"], message: `expected one of ${names.join(", ")}` });
    }),
);
export type Pricing = z.infer<typeof Pricing>;

/** `origin`: where the text comes from, for messages. */
export function parsePricing(text: string, origin: string): Pricing {
  let table: unknown;
  try {
    table = Bun.TOML.parse(text);
  } catch (cause) {
    throw new UsageError(`${origin}: ${(cause as Error).message}`, 2, { cause });
  }
  const result = Pricing.safeParse(table, { jitless: true }); // once: a function compiled for it would not pay
  if (result.success) return result.data;
  throw new UsageError(`${origin}: ${faultOf(result.error.issues[0]!, table)}`);
}

const knownKeys = () =>
  [Pricing, Tokens, Local, Provider, Device].flatMap((schema) => Object.keys(schema.unwrap().shape));

function faultOf(issue: z.core.$ZodIssue, table: unknown): string {
  const path = issue.path.map(String);
  if (issue.code === "unrecognized_keys") {
    const [key = ""] = issue.keys;
    const close = nearest(key, knownKeys());
    return `unknown key ${[...path, key].join(".")}.${close ? ` Did you mean ${close}?` : ""}`;
  }
  const inner = issue.code === "invalid_key" ? issue.issues[0] : undefined;
  const value = path.reduce<unknown>((at, key) => (at as Record<string, unknown> | undefined)?.[key], table);
  const words = plainIssue((inner ?? issue).message).replace(/, not [^,]*$/, "");
  if (value === undefined) return `${path.join(".")} is missing`;
  return `${path.join(".")}: ${words}${inner || typeof value === "object" ? "" : `, not ${JSON.stringify(value)}`}`;
}

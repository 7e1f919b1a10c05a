/** Values of OTLP/JSON (https://opentelemetry.io/docs/specs/otlp/) as plain JSON. */
import { z } from "zod";
import { withLangfuse } from "./langfuse.ts";

type AnyValue = {
  stringValue?: string | undefined;
  boolValue?: boolean | undefined;
  intValue?: string | number | undefined;
  doubleValue?: number | string | undefined;
  arrayValue?: { values?: AnyValue[] | undefined } | undefined;
  kvlistValue?: { values?: KeyValue[] | undefined } | undefined;
};
type KeyValue = { key: string; value?: AnyValue | undefined };

const AnyValue: z.ZodType<AnyValue> = z.lazy(() =>
  z.object({
    stringValue: z.string().optional(),
    boolValue: z.boolean().optional(),
    intValue: z.union([z.string(), z.number()]).optional(),
    doubleValue: z.union([z.number(), z.string()]).optional(),
    arrayValue: z.object({ values: z.array(AnyValue).optional() }).optional(),
    kvlistValue: z.object({ values: z.array(KeyValue).optional() }).optional(),
  }),
);
const KeyValue: z.ZodType<KeyValue> = z.lazy(() => z.object({ key: z.string(), value: AnyValue.optional() }));

/** Nanoseconds since 1970, as text or as a number. */
const Nanos = z.union([z.string().regex(/^\d{1,20}$/), z.number().min(0).max(1e20).transform(Math.trunc)]);

const Span = z.object({
  traceId: z.string().regex(/^[0-9a-fA-F]{32}$/),
  spanId: z.string().regex(/^[0-9a-fA-F]{16}$/),
  name: z.string().default(""),
  startTimeUnixNano: Nanos,
  endTimeUnixNano: Nanos,
  attributes: z.array(KeyValue).default([]),
  events: z.array(z.object({ name: z.string().default(""), attributes: z.array(KeyValue).default([]) })).default([]),
  status: z.object({ code: z.union([z.number(), z.string()]).optional() }).optional(),
});

export const ResourceSpans = z.object({
  resource: z.object({ attributes: z.array(KeyValue).default([]) }).optional(),
  scopeSpans: z.array(z.object({ spans: z.array(z.unknown()).default([]) })).default([]),
});

export type Attributes = Readonly<Record<string, unknown>>;

export type OtelSpan = {
  traceId: string;
  spanId: string;
  name: string;
  startedAt: number;
  durationMs: number;
  failed: boolean;
  attributes: Attributes;
  events: readonly { name: string; attributes: Attributes }[];
};

/** Undefined: not a span of the format. */
export function readSpan(value: unknown): OtelSpan | undefined {
  const { data } = Span.safeParse(value);
  if (!data) return undefined;
  const start = toMs(data.startTimeUnixNano);
  return {
    traceId: data.traceId.toLowerCase(),
    spanId: data.spanId.toLowerCase(),
    name: data.name,
    startedAt: Math.trunc(start),
    durationMs: Math.max(0, toMs(data.endTimeUnixNano) - start),
    failed: data.status?.code === 2 || data.status?.code === "STATUS_CODE_ERROR",
    attributes: withLangfuse(toObject(data.attributes)),
    events: data.events.map(({ name, attributes }) => ({ name, attributes: toObject(attributes) })),
  };
}

/** With three decimals: a double cannot hold nanoseconds since 1970. */
const toMs = (nanos: string | number) => Number(BigInt(nanos) / 1_000n) / 1_000;

export const toObject = (pairs: readonly KeyValue[]): Attributes =>
  Object.fromEntries(pairs.map(({ key, value }) => [key, toJson(value)]));

function toJson(value: AnyValue | undefined): unknown {
  if (value?.stringValue !== undefined) return value.stringValue;
  if (value?.boolValue !== undefined) return value.boolValue;
  if (value?.intValue !== undefined) return Number(value.intValue);
  if (value?.doubleValue !== undefined) return Number(value.doubleValue);
  if (value?.arrayValue) return (value.arrayValue.values ?? []).map(toJson);
  if (value?.kvlistValue) return toObject(value.kvlistValue.values ?? []);
  return null;
}

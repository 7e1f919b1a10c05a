/** Fields that the form of a new deployment and its settings share. */
import type { ApiError } from "../../data/api.ts";
import { SelectField, TextField } from "../../kit/field.tsx";

export type Scaling = {
  min_replicas: string;
  max_replicas: string;
  idle_timeout_seconds: string;
  context_length: string;
  parallel: string;
  kv_type: string;
  pinned: string;
};

type ScalingProps = {
  value: Scaling;
  onChange: (value: Scaling) => void;
  error: ApiError | undefined;
};

/** How much of each request its trace keeps. */
export const CAPTURES = [
  ["none", "Times, tokens and status"],
  ["metadata", "Also parameters and metadata"],
  ["full", "Also prompts and answers"],
] as const;

/** The message of an error that names this field, such as `/min_replicas`. */
export const errorAt = (error: ApiError | undefined, name: string): string | undefined =>
  error?.param === `/${name}` ? error.message : undefined;

export function ScalingFields({ value, onChange, error }: ScalingProps) {
  const set = (name: keyof Scaling) => (text: string) => onChange({ ...value, [name]: text });
  const field = (name: keyof Scaling, label: string, hint: string) => (
    <TextField
      label={label}
      type="number"
      value={value[name]}
      onInput={set(name)}
      hint={hint}
      error={errorAt(error, name)}
    />
  );
  return (
    <div class="grid half">
      {field("min_replicas", "Minimum replicas", "With 0 it is parked when idle, and the next request wakes it")}
      {field("max_replicas", "Maximum replicas", "More start when requests wait and memory is free")}
      {field("idle_timeout_seconds", "Idle seconds before parking", "Counted from the last request")}
      {field("context_length", "Context length in tokens", "Empty: the server's default")}
      {field("parallel", "Sequences at once", "Empty: the server's default")}
      <SelectField
        label="Numbers of keys and values"
        value={value.kv_type}
        options={[
          ["", "The server's default"],
          ["f16", "16 bits"],
          ["q8_0", "8 bits: half of the memory"],
        ]}
        onChange={set("kv_type")}
      />
      <SelectField
        label="Park it to make room"
        value={value.pinned}
        options={[
          ["no", "Yes, when another needs the memory"],
          ["yes", "Never: it is pinned"],
        ]}
        onChange={set("pinned")}
      />
    </div>
  );
}

/** The body of a request. An empty field that may be null becomes null. */
export const scalingBody = (value: Scaling) => ({
  min_replicas: Number(value.min_replicas),
  max_replicas: Number(value.max_replicas),
  idle_timeout_seconds: Number(value.idle_timeout_seconds),
  context_length: value.context_length === "" ? null : Number(value.context_length),
  parallel: value.parallel === "" ? null : Number(value.parallel),
  kv_type: value.kv_type === "" ? null : (value.kv_type as "f16" | "q8_0"),
  pinned: value.pinned === "yes",
});

/** The form of a new experiment, and the request that it makes. */
export type TargetType = "deployment" | "checkpoint" | "model" | "outputs";
/** `value`: the deployment, job, model or column. */
export type TargetForm = { type: TargetType; value: string; name: string };
export type Form = {
  name: string;
  dataset: string;
  /** Empty: the rows as they are now. */
  snapshot: string;
  targets: readonly TargetForm[];
  evaluators: readonly string[];
  baseline: number;
  maxRows: string;
  referenceField: string;
  systemPrompt: string;
  temperature: string;
  maxTokens: string;
};

const FIELDS = { deployment: "deployment", checkpoint: "job", model: "model", outputs: "field" } as const;
const text = (value: string) => (value.trim() === "" ? undefined : value.trim());
const figure = (value: string) => (value.trim() === "" ? undefined : Number(value));

export const isReady = ({ dataset, targets, evaluators }: Form) =>
  dataset !== "" && evaluators.length > 0 && targets.every(({ value }) => value.trim() !== "");

/** The baseline is sent by its name, so each target gets one: what it is, and a number if that is there twice. */
export function namesOf(targets: readonly TargetForm[], shown: (target: TargetForm) => string): string[] {
  const used = new Map<string, number>();
  return targets.map((target) => {
    const name = text(target.name) ?? shown(target);
    const times = (used.get(name) ?? 0) + 1;
    used.set(name, times);
    return times === 1 ? name : `${name} ${times}`;
  });
}

export function bodyOf(form: Form, names: readonly string[]) {
  const { name, dataset, snapshot, targets, evaluators, baseline } = form;
  return {
    name: text(name),
    dataset: `${dataset}${snapshot}`,
    targets: targets.map(({ type, value }, i) => ({ type, name: names[i], [FIELDS[type]]: value.trim() })),
    evaluators,
    baseline: names[baseline],
    max_rows: figure(form.maxRows),
    reference_field: text(form.referenceField),
    system_prompt: text(form.systemPrompt),
    params: { temperature: figure(form.temperature) ?? 0, max_tokens: figure(form.maxTokens) },
  };
}

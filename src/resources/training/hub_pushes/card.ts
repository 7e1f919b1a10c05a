/** The model card: what the model was made of, with which settings, and how it learned. Pure. */
export type Curve = { step: number; values: Readonly<Record<string, number>> };

export type CardFacts = {
  repo: string;
  variant: "adapter" | "merged" | "gguf" | "model";
  quantization: string;
  /** The base model as the job names it, and as the hub knows it. */
  base: string | null;
  hubBase: string | null;
  job: {
    id: string;
    method: string;
    steps: number;
    totalSteps: number;
    seed: number;
    dataset: string | null;
    rows: number | null;
    rewards: readonly { name: string; weight: number }[];
    lora: Readonly<Record<string, unknown>> | null;
    hyperparameters: Readonly<Record<string, unknown>>;
    hashes: Readonly<Record<string, string | null>>;
    version: string;
  } | null;
  curve: readonly Curve[];
};

const LIBRARY = { adapter: "peft", merged: "transformers", gguf: "gguf", model: "gguf" } as const;
const KINDS = {
  adapter: "A LoRA adapter in the format of PEFT",
  merged: "Merged weights as safetensors",
  gguf: "A GGUF file",
  model: "A GGUF file",
} as const;
const MOST_COLUMNS = 5;
const FIRST_COLUMNS = ["reward", "loss", "eval_reward", "eval_loss", "kl", "entropy", "grad_norm", "learning_rate"];

export function cardOf({ repo, variant, quantization, base, hubBase, job, curve }: CardFacts): string {
  const kind = quantization === "" ? KINDS[variant] : `${KINDS[variant]} (${quantization})`;
  const lines = [
    "---",
    `library_name: ${LIBRARY[variant]}`,
    ...(hubBase === null ? [] : [`base_model: ${JSON.stringify(hubBase)}`]),
    ...(hubBase === null || variant !== "adapter" ? [] : ["base_model_relation: adapter"]),
    `tags: ${JSON.stringify(["verk", ...(job ? [job.method] : [])])}`,
    "---",
    "",
    `# ${text(repo.split("/")[1] ?? repo)}`,
    "",
    `${kind}${base === null ? "" : ` of ${text(base)}`}${job ? `, trained with ${job.method.toUpperCase()}` : ""} by Verk${job ? ` ${text(job.version)}` : ""}.`,
  ];
  if (!job) return `${lines.join("\n")}\n`;
  const facts: [string, string][] = [
    ["Job", job.id],
    ["Steps", `${job.steps} of ${job.totalSteps}`],
    ["Seed", String(job.seed)],
    ...(job.dataset === null ? [] : [["Dataset", job.dataset] as [string, string]]),
    ...(job.rows === null ? [] : [["Rows", String(job.rows)] as [string, string]]),
    ...job.rewards.map(({ name, weight }): [string, string] => ["Reward", `${name} × ${weight}`]),
    ...Object.entries(job.hashes).flatMap(([name, hash]): [string, string][] => (hash === null ? [] : [[name, hash]])),
  ];
  lines.push("", "## Training", "", ...tableOf(["", ""], facts));
  const settings = Object.entries({ ...prefixed("lora", job.lora), ...job.hyperparameters });
  if (settings.length > 0)
    lines.push(
      "",
      "## Settings",
      "",
      ...tableOf(
        ["Setting", "Value"],
        settings.map(([name, value]) => [name, shown(value)]),
      ),
    );
  const columns = columnsOf(curve);
  if (columns.length > 0)
    lines.push(
      "",
      "## Curves",
      "",
      ...tableOf(
        ["Step", ...columns],
        curve.map(({ step, values }) => [String(step), ...columns.map((name) => numberOf(values[name]))]),
      ),
    );
  return `${lines.join("\n")}\n`;
}

/** The keys that tell most come first. */
function columnsOf(curve: readonly Curve[]): string[] {
  const known = new Set(curve.flatMap(({ values }) => Object.keys(values)));
  return FIRST_COLUMNS.filter((name) => known.has(name)).slice(0, MOST_COLUMNS);
}

const numberOf = (value: number | undefined) => (value === undefined ? "" : String(Number(value.toPrecision(4))));
const shown = (value: unknown) => (typeof value === "string" ? value : JSON.stringify(value));
const prefixed = (name: string, record: Readonly<Record<string, unknown>> | null) =>
  Object.fromEntries(Object.entries(record ?? {}).map(([key, value]) => [`${name}.${key}`, value]));

const tableOf = (head: readonly string[], rows: readonly (readonly string[])[]) => [
  `| ${head.map(text).join(" | ")} |`,
  `|${" --- |".repeat(head.length)}`,
  ...rows.map((row) => `| ${row.map(text).join(" | ")} |`),
];

const MOST_TEXT = 300;

/** Names come from users: none may end a cell, begin markup or carry a link. */
const text = (value: string) =>
  value
    .slice(0, MOST_TEXT)
    .replaceAll(/\s+/g, " ")
    .replaceAll(/[\\`*_{}[\]<>|#]/g, "\\$&");

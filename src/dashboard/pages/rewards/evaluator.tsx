/** An evaluator: its settings, and a try on rows. `/rewards/evaluators/new` creates one. */
import { useState } from "preact/hooks";
import { errorText } from "../../../lib/error_text.ts";
import type { Evaluator } from "../../../resources/quality/evaluators/schema.ts";
import { ApiError, api } from "../../data/api.ts";
import { NONE, words } from "../../data/format.ts";
import { reload, useResource } from "../../data/resource.ts";
import { may } from "../../data/session.ts";
import { Button } from "../../kit/button.tsx";
import { Card, Facts } from "../../kit/card.tsx";
import { SelectField, TextField } from "../../kit/field.tsx";
import { Json } from "../../kit/json.tsx";
import { ErrorBox, Page as Frame, Loaded } from "../../kit/page.tsx";
import { Time } from "../../kit/time.tsx";
import { navigate } from "../../shell/router.ts";
import { toast } from "../../shell/toasts.tsx";
import type { PageProps } from "../spec.ts";
import { Try } from "./try.tsx";

const ABOVE = [["Rewards and evaluators", "/rewards?tab=evaluators"]] as const;

export function Page({ params }: PageProps) {
  const id = params["id"] ?? "";
  return id === "new" ? <New /> : <Existing id={id} />;
}

function Existing({ id }: { id: string }) {
  const resource = useResource<Evaluator>(`/v1/evaluators/${encodeURIComponent(id)}`);
  const evaluator = resource.data;
  return (
    <Frame title={evaluator?.name ?? "Evaluator"} purpose={evaluator?.description ?? "Judges answers."} above={ABOVE}>
      <Loaded of={resource}>
        {(loaded) => (
          <div class="grid half">
            <Card title="Settings">
              <div class="stack">
                <Facts
                  rows={[
                    ["Kind", words(loaded.kind)],
                    ["Version", loaded.version],
                    ["Passes from", loaded.pass_threshold ?? "the default of its kind"],
                    ["Created", <Time key="made" at={loaded.created_at} />],
                    ...Object.entries(loaded.config)
                      .filter(isShort)
                      .map(([name, value]) => [words(name), valueText(value)] as const),
                  ]}
                />
                {Object.entries(loaded.config)
                  .filter((each) => !isShort(each))
                  .map(([name, value]) => (
                    <div key={name} class="stack">
                      <h3>{words(name)}</h3>
                      {typeof value === "string" ? <pre class="text">{value}</pre> : <Json value={value} />}
                    </div>
                  ))}
              </div>
            </Card>
            <Try id={loaded.id} />
          </div>
        )}
      </Loaded>
    </Frame>
  );
}

const LONGEST = 60;
/** True for a value that stands in one line. */
const isShort = ([, value]: [string, unknown]): boolean =>
  typeof value === "string"
    ? value.length <= LONGEST && !value.includes("\n")
    : typeof value !== "object" || value === null;
const valueText = (value: unknown): string =>
  value === null ? NONE : typeof value === "boolean" ? (value ? "yes" : "no") : String(value);

type Kind = Evaluator["kind"];
const KINDS: readonly (readonly [Kind, string])[] = [
  ["string_check", "Text check"],
  ["json_schema", "JSON schema"],
  ["code", "Code"],
  ["reward_function", "Reward function"],
  ["similarity", "Similarity of meaning"],
  ["llm_judge", "Model as judge"],
];
/** Settings to begin with; docs/evaluators.md explains them. */
const CONFIGS: Record<Kind, unknown> = {
  string_check: { operation: "contains", value: null, ignore_case: true },
  json_schema: { schema: { type: "object", required: ["answer"], properties: { answer: { type: "string" } } } },
  code: { source: "def reward(prompt, completion, **row):\n    return float(len(completion) < 200)\n" },
  reward_function: { reward_function: "accuracy", params: {} },
  similarity: { deployment: "my-embeddings" },
  llm_judge: { deployment: "my-judge", rubric: "A good answer is right and short.", scale: { min: 1, max: 5 } },
};
const pretty = (value: unknown) => JSON.stringify(value, null, 2);

function New() {
  const [kind, setKind] = useState<Kind>("string_check");
  const [name, setName] = useState("");
  const [description, setDescription] = useState("");
  const [config, setConfig] = useState(pretty(CONFIGS.string_check));
  const [error, setError] = useState<ApiError>();
  const create = async () => {
    try {
      const body = {
        name,
        kind,
        config: JSON.parse(config) as unknown,
        ...(description === "" ? {} : { description }),
      };
      const kept = await api<Evaluator>("/v1/evaluators", { method: "POST", body });
      toast(`Saved ${kept.name}, version ${kept.version}`);
      void reload("/v1/evaluators");
      navigate(`/rewards/evaluators/${kept.id}`);
    } catch (cause) {
      setError(cause instanceof ApiError ? cause : new ApiError(0, null, `Settings: ${errorText(cause)}`));
    }
  };
  return (
    <Frame title="New evaluator" purpose="Judges answers of any model, by a rule or by another model." above={ABOVE}>
      <Card>
        <div class="stack rewards-form">
          <div class="grid half">
            <TextField label="Name" value={name} onInput={setName} hint="A name that exists gets its next version." />
            <SelectField
              label="Kind"
              value={kind}
              options={KINDS}
              onChange={(value) => {
                setKind(value);
                setConfig(pretty(CONFIGS[value]));
              }}
            />
          </div>
          <TextField label="Meaning" value={description} onInput={setDescription} hint="One line for others." />
          <TextField
            label="Settings"
            value={config}
            onInput={setConfig}
            rows={10}
            mono
            hint="JSON. A null value of a text check compares with the reference of each row."
          />
          {error && <ErrorBox error={error} />}
          <div class="row">
            <Button kind="primary" onClick={create} disabled={name.trim() === "" || !may("training", false)}>
              Create evaluator
            </Button>
          </div>
        </div>
      </Card>
    </Frame>
  );
}

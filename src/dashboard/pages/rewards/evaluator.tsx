/** An evaluator: its settings, and a try on rows. `/rewards/evaluators/new` creates one. */
import { detectLanguage } from "../../../lib/rewards/language.ts";
import type { Evaluator } from "../../../resources/quality/evaluators/schema.ts";
import { NONE, words } from "../../data/format.ts";
import { useResource } from "../../data/resource.ts";
import { may } from "../../data/session.ts";
import { LinkButton } from "../../kit/button.tsx";
import { Card, Facts } from "../../kit/card.tsx";
import { CodeView } from "../../kit/code/editor.tsx";
import { Json } from "../../kit/json.tsx";
import { Page as Frame, Loaded } from "../../kit/page.tsx";
import { Time } from "../../kit/time.tsx";
import type { PageProps } from "../spec.ts";
import { New } from "./new_evaluator.tsx";
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
    <Frame
      title={evaluator?.name ?? "Evaluator"}
      purpose={evaluator?.description ?? "Judges answers."}
      above={ABOVE}
      actions={
        evaluator &&
        may("training", false) && (
          <LinkButton href={`/rewards/evaluators/new?from=${evaluator.id}`}>New version</LinkButton>
        )
      }
    >
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
                      {typeof value === "string" ? <Text name={name} value={value} /> : <Json value={value} />}
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

const Text = ({ name, value }: { name: string; value: string }) =>
  name === "source" ? (
    <CodeView
      label="Code of the evaluator"
      value={value}
      language={detectLanguage(value) === "typescript" ? "typescript" : "python"}
    />
  ) : (
    <pre class="text">{value}</pre>
  );

const LONGEST = 60;
/** True for a value that stands in one line. */
const isShort = ([, value]: [string, unknown]): boolean =>
  typeof value === "string"
    ? value.length <= LONGEST && !value.includes("\n")
    : typeof value !== "object" || value === null;
const valueText = (value: unknown): string =>
  value === null ? NONE : typeof value === "boolean" ? (value ? "yes" : "no") : String(value);

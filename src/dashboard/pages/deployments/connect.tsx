/** How other programs reach a deployment: the first request in three languages, with a key of the caller's own. */
import { useState } from "preact/hooks";
import type { ApiKey } from "../../../resources/access/api_keys/schema.ts";
import type { Deployment } from "../../../resources/serving/deployments/schema.ts";
import { api } from "../../data/api.ts";
import { reload } from "../../data/resource.ts";
import { may } from "../../data/session.ts";
import { Button } from "../../kit/button.tsx";
import { Card, Facts } from "../../kit/card.tsx";
import { CodeView } from "../../kit/code/editor.tsx";
import { Copy } from "../../kit/copy.tsx";
import { Tabs, tabOf } from "../../kit/tabs.tsx";
import { Time } from "../../kit/time.tsx";
import { attempt } from "../../shell/toasts.tsx";
import { COLOURS, LANGUAGES, requestIn } from "./examples.ts";

const MOST_NAME = 80;

export function Connect({ deployment }: { deployment: Deployment }) {
  const { id, name, gpu, created_at: created, started_at: started } = deployment;
  const [key, setKey] = useState<string>();
  const base = `${location.origin}/v1`;
  const [language, shown] = LANGUAGES.find(([each]) => each === tabOf("curl", "in")) ?? LANGUAGES[0];
  const code = requestIn(language, { base, model: name, key });
  const make = () =>
    attempt(async () => {
      const body = { name: `for ${name}`.slice(0, MOST_NAME), scopes: ["inference"] };
      const made = await api<ApiKey & { key: string }>("/v1/api_keys", { method: "POST", body });
      setKey(made.key);
      void reload("/v1/api_keys");
    }, "The key is in the code");
  return (
    <div class="grid two">
      <Card title="Send a request" side={<Copy text={code} label={`Copy the ${shown} code`} />}>
        <div class="stack">
          <Tabs label="Language" name="in" tabs={LANGUAGES} />
          <CodeView label={`${shown} code`} value={code} language={COLOURS[language]} />
          {key === undefined ? (
            <div class="row">
              {may("account", false) && <Button onClick={make}>Make a key for it</Button>}
              <p class="muted">VERK_API_KEY is a key with the scope inference.</p>
            </div>
          ) : (
            <p class="warn" role="status">
              The key is in the code. It is shown only now: copy it before you leave the page.
            </p>
          )}
          <p class="muted">
            Every client of OpenAI works with the base address and the model name.{" "}
            <a href="/docs#chat">API reference</a>
          </p>
        </div>
      </Card>
      <Card title="Address">
        <Facts
          rows={[
            ["Base address", <Line key="base" text={base} />],
            ["Model name", <Line key="name" text={name} />],
            ["Deployment", <Line key="id" text={id} />],
            ["Device", `${gpu.count} × ${gpu.type}`],
            ["Created", <Time key="made" at={created} />],
            ["First served", <Time key="served" at={started} />],
          ]}
        />
      </Card>
    </div>
  );
}

const Line = ({ text }: { text: string }) => (
  <span class="id">
    <code>{text}</code>
    <Copy text={text} label={`Copy ${text}`} />
  </span>
);

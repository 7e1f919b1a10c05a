import { useSignal } from "@preact/signals";
import type { WebhookEndpoint } from "../../../resources/watching/webhooks/schema.ts";
import { api } from "../../data/api.ts";
import { may } from "../../data/session.ts";
import { Button } from "../../kit/button.tsx";
import { Card } from "../../kit/card.tsx";
import { Copy } from "../../kit/copy.tsx";
import { SelectField } from "../../kit/field.tsx";
import { attempt } from "../../shell/toasts.tsx";

const GRACE = [
  ["86400", "One more day"],
  ["3600", "One more hour"],
  ["0", "No longer"],
] as const;

/** Reveals and rotates the secret. A revealed secret leaves the page with it. */
export function Secret({ endpoint, path }: { endpoint: WebhookEndpoint; path: string }) {
  const shown = useSignal<string | undefined>(undefined);
  const grace = useSignal<(typeof GRACE)[number][0]>("86400");
  const reveal = async () => {
    shown.value = (await attempt(() => api<{ secret: string }>(`${path}/secret`)))?.secret;
  };
  const rotate = async () => {
    const body = { grace_period_seconds: Number(grace.value) };
    const done = await attempt(() => api(`${path}/rotate_secret`, { method: "POST", body }), "The secret is new");
    if (done) await reveal();
  };
  return (
    <Card title="Secret" note="signs each delivery">
      <div class="stack">
        <div class="command">
          <code>{shown.value ?? endpoint.secret}</code>
          {shown.value !== undefined && <Copy text={shown.value} label="Copy the secret" />}
        </div>
        {may("account", false) && (
          <>
            <div class="row">
              <Button onClick={reveal}>Reveal</Button>
            </div>
            <SelectField
              label="After a rotation the old secret signs too for"
              value={grace.value}
              options={GRACE}
              onChange={(next) => {
                grace.value = next;
              }}
            />
            <div class="row">
              <Button onClick={rotate}>Rotate</Button>
            </div>
          </>
        )}
      </div>
    </Card>
  );
}

import { useSignal } from "@preact/signals";
import { errorText } from "../../../lib/error_text.ts";
import type { WebhookEndpoint } from "../../../resources/watching/webhooks/schema.ts";
import { ApiError, api } from "../../data/api.ts";
import { reload } from "../../data/resource.ts";
import { may } from "../../data/session.ts";
import { Button } from "../../kit/button.tsx";
import { Card } from "../../kit/card.tsx";
import { TextField } from "../../kit/field.tsx";
import { toast } from "../../shell/toasts.tsx";
import { TypeChoice } from "./types.tsx";

export function EndpointSettings({ endpoint, path }: { endpoint: WebhookEndpoint; path: string }) {
  const url = useSignal(endpoint.url);
  const description = useSignal(endpoint.description);
  const types = useSignal<readonly string[]>(endpoint.event_types);
  const error = useSignal<ApiError | undefined>(undefined);
  const save = async () => {
    const body = { url: url.value, description: description.value, event_types: types.value };
    try {
      await api(path, { method: "PATCH", body });
      error.value = undefined;
      toast("Saved");
      await reload("/v1/webhooks");
    } catch (reason) {
      if (reason instanceof ApiError && reason.param) error.value = reason;
      else toast(errorText(reason), "bad");
    }
  };
  return (
    <Card title="Settings">
      <div class="stack">
        <TextField
          label="Address"
          value={url.value}
          onInput={(text) => (url.value = text)}
          error={error.value?.message}
        />
        <TextField label="About" value={description.value} onInput={(text) => (description.value = text)} />
        <TypeChoice chosen={types.value} onChange={(next) => (types.value = next)} />
        <div class="row">
          <Button kind="primary" onClick={save} disabled={!may("account", false)}>
            Save
          </Button>
        </div>
      </div>
    </Card>
  );
}

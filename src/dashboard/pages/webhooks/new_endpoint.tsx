import { useSignal } from "@preact/signals";
import { errorText } from "../../../lib/error_text.ts";
import type { WebhookEndpoint } from "../../../resources/watching/webhooks/schema.ts";
import { ApiError, api } from "../../data/api.ts";
import { reload } from "../../data/resource.ts";
import { Button, LinkButton } from "../../kit/button.tsx";
import { Copy } from "../../kit/copy.tsx";
import { Dialog } from "../../kit/dialog.tsx";
import { TextField } from "../../kit/field.tsx";
import { toast } from "../../shell/toasts.tsx";
import { TypeChoice } from "./types.tsx";

/** The answer is the only one that shows the whole secret without asking for it. */
export function NewEndpoint({ onClose }: { onClose: () => void }) {
  const url = useSignal("");
  const description = useSignal("");
  const types = useSignal<readonly string[]>([]);
  const endpoint = useSignal<WebhookEndpoint | undefined>(undefined);
  const error = useSignal<ApiError | undefined>(undefined);
  const create = async () => {
    const body = { url: url.value, description: description.value, event_types: types.value };
    try {
      endpoint.value = await api<WebhookEndpoint>("/v1/webhooks", { method: "POST", body });
      await reload("/v1/webhooks");
    } catch (reason) {
      if (reason instanceof ApiError && reason.param) error.value = reason;
      else toast(errorText(reason), "bad");
    }
  };
  if (endpoint.value)
    return (
      <Dialog title="The endpoint is ready" onClose={onClose}>
        <div class="stack">
          <p>Check the signature of each delivery with this secret.</p>
          <div class="command">
            <code>{endpoint.value.secret}</code>
            <Copy text={endpoint.value.secret} label="Copy the secret" />
          </div>
          <div class="row">
            <LinkButton kind="primary" href={`/webhooks/${endpoint.value.id}`}>
              Open the endpoint
            </LinkButton>
          </div>
        </div>
      </Dialog>
    );
  return (
    <Dialog title="New endpoint" onClose={onClose}>
      <form
        class="stack"
        onSubmit={(event) => {
          event.preventDefault();
          void create();
        }}
      >
        <TextField
          label="Address"
          value={url.value}
          onInput={(text) => (url.value = text)}
          hint="An https address that is reachable from the internet"
          error={error.value?.message}
        />
        <TextField label="About" value={description.value} onInput={(text) => (description.value = text)} />
        <TypeChoice chosen={types.value} onChange={(next) => (types.value = next)} />
        <div class="row">
          <Button kind="primary" submit>
            Create endpoint
          </Button>
        </div>
      </form>
    </Dialog>
  );
}

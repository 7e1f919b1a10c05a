import { useSignal } from "@preact/signals";
import type { WebhookEndpoint } from "../../../resources/watching/webhooks/schema.ts";
import { api } from "../../data/api.ts";
import { deleteResource, reload, useResource } from "../../data/resource.ts";
import { may } from "../../data/session.ts";
import { Button } from "../../kit/button.tsx";
import { Confirm } from "../../kit/dialog.tsx";
import { Page as Frame, Loaded, Skeleton } from "../../kit/page.tsx";
import { State } from "../../kit/pill.tsx";
import { Tabs, tabOf } from "../../kit/tabs.tsx";
import { navigate } from "../../shell/router.ts";
import { attempt } from "../../shell/toasts.tsx";
import type { PageProps } from "../spec.ts";
import { Deliveries } from "./deliveries.tsx";
import { Recover } from "./recover.tsx";
import { Secret } from "./secret.tsx";
import { EndpointSettings } from "./settings.tsx";
import { stateOf } from "./words.ts";

const TABS = [
  ["deliveries", "Deliveries"],
  ["settings", "Settings"],
] as const;

export function Page({ params }: PageProps) {
  const path = `/v1/webhooks/${encodeURIComponent(params["id"] ?? "")}`;
  const endpoint = useResource<WebhookEndpoint>(path, { events: ["webhook."], everyMs: 5_000 });
  const { data } = endpoint;
  const tab = tabOf("deliveries");
  return (
    <Frame
      title={data?.url ?? "Webhook endpoint"}
      above={[["Webhooks", "/webhooks"]]}
      beside={data && <State {...stateOf(data)} />}
      purpose={data?.description}
      actions={data && may("account", false) && <Actions endpoint={data} path={path} />}
    >
      <Loaded of={endpoint} skeleton={<Skeleton height={300} />}>
        {(endpoint) => (
          <>
            <Tabs label="Parts of the endpoint" tabs={TABS} />
            {tab === "settings" ? (
              <div class="grid two">
                <EndpointSettings key={endpoint.updated_at} endpoint={endpoint} path={path} />
                <Secret endpoint={endpoint} path={path} />
              </div>
            ) : (
              <div class="grid">
                <Recover path={path} />
                <Deliveries path={path} />
              </div>
            )}
          </>
        )}
      </Loaded>
    </Frame>
  );
}

function Actions({ endpoint: { url, enabled }, path }: { endpoint: WebhookEndpoint; path: string }) {
  const isDeleting = useSignal(false);
  const after = (work: Promise<unknown>) => work.then(() => reload("/v1/webhooks"));
  const test = () => after(attempt(() => api(`${path}/test`, { method: "POST" }), "A test event is sent"));
  const enable = () =>
    after(
      attempt(
        () => api(path, { method: "PATCH", body: { enabled: !enabled } }),
        enabled ? "Disabled: events wait" : "Enabled: waiting events are sent",
      ),
    );
  const remove = async () => {
    const done = await attempt(() => deleteResource(path), "Deleted");
    if (done) navigate("/webhooks");
  };
  return (
    <>
      <Button onClick={test} disabled={!enabled}>
        Send test event
      </Button>
      <Button onClick={enable}>{enabled ? "Disable" : "Enable"}</Button>
      <Button kind="danger" onClick={() => (isDeleting.value = true)}>
        Delete
      </Button>
      {isDeleting.value && (
        <Confirm
          title="Delete this endpoint"
          verb="Delete"
          onConfirm={remove}
          onClose={() => (isDeleting.value = false)}
        >
          {`Events that wait for ${url} are never sent.`}
        </Confirm>
      )}
    </>
  );
}

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
import { Secret } from "./secret.tsx";
import { EndpointSettings } from "./settings.tsx";
import { TestEvent } from "./test_event.tsx";
import { Timeline } from "./timeline.tsx";
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
  const isTesting = useSignal(false);
  const test = () => {
    isTesting.value = true;
  };
  return (
    <Frame
      title={data?.url ?? "Webhook endpoint"}
      above={[["Webhooks", "/webhooks"]]}
      beside={data && <State {...stateOf(data)} />}
      purpose={data?.description}
      actions={data && may("account", false) && <Actions endpoint={data} path={path} onTest={test} />}
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
              <Timeline path={path} isEnabled={endpoint.enabled} onTest={test} />
            )}
            {isTesting.value && <TestEvent path={path} onClose={() => (isTesting.value = false)} />}
          </>
        )}
      </Loaded>
    </Frame>
  );
}

type ActionsProps = { endpoint: WebhookEndpoint; path: string; onTest: () => void };

function Actions({ endpoint: { url, enabled }, path, onTest }: ActionsProps) {
  const isDeleting = useSignal(false);
  const enable = () =>
    attempt(
      () => api(path, { method: "PATCH", body: { enabled: !enabled } }),
      enabled ? "Disabled: events wait" : "Enabled: waiting events are sent",
    ).then(() => reload("/v1/webhooks"));
  const remove = async () => {
    const done = await attempt(() => deleteResource(path), "Deleted");
    if (done) navigate("/webhooks");
  };
  return (
    <>
      <Button kind="primary" onClick={onTest} disabled={!enabled}>
        Send test event
      </Button>
      <Button onClick={enable}>{enabled ? "Disable" : "Enable"}</Button>
      <Button kind="danger" onClick={() => (isDeleting.value = true)}>
        Delete
      </Button>
      {isDeleting.value && (
        <Confirm
          title="Delete this endpoint?"
          verb="Delete"
          onConfirm={remove}
          onClose={() => (isDeleting.value = false)}
        >
          {`Events that wait for ${url} are never sent, and its timeline is gone. The events themselves stay in the feed.`}
        </Confirm>
      )}
    </>
  );
}

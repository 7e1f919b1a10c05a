/**
 * Things that need a person: failures of the last day, warnings of running jobs, low credit, disabled webhooks,
 * keys that expire soon.
 */
import { expiresSoon } from "../../../lib/time.ts";
import type { ApiKey } from "../../../resources/access/api_keys/schema.ts";
import type { BurnRate } from "../../../resources/money/billing/schema.ts";
import type { Deployment } from "../../../resources/serving/deployments/schema.ts";
import type { TrainingJob } from "../../../resources/training/training_jobs/schema.ts";
import type { WebhookEndpoint } from "../../../resources/watching/webhooks/schema.ts";
import { duration, money } from "../../data/format.ts";
import { areAnswered, type Page as ListPage, type Resource, useResource } from "../../data/resource.ts";
import { may } from "../../data/session.ts";
import { Card } from "../../kit/card.tsx";
import { Pill, type Tone } from "../../kit/pill.tsx";
import { Time } from "../../kit/time.tsx";
import { hasPage } from "../../shell/router.ts";

type Alert = {
  key: string;
  tone: Tone;
  title: string;
  detail: string;
  at?: string | undefined;
  href?: string | undefined;
};

const DAY_MS = 86_400_000;
const LOW_HOURS = 24;
const MOST = 6;

/** Undefined until all of them are known: a card that comes late would move what is below it. */
export function useAlerts(
  jobs: Resource<ListPage<TrainingJob>>,
  deployments: Resource<ListPage<Deployment>>,
): readonly Alert[] | undefined {
  const hooks = useResource<ListPage<WebhookEndpoint>>(may("account") ? "/v1/webhooks?limit=100" : null, {
    events: ["webhook_endpoint."],
  });
  const keys = useResource<ListPage<ApiKey>>(may("account") ? "/v1/api_keys?limit=100" : null, {
    events: ["api_key."],
  });
  const burn = useResource<BurnRate>(may("training") ? "/v1/billing/burn_rate" : null, { events: ["credit.", "job."] });
  if (!areAnswered(jobs, deployments, hooks, keys, burn)) return undefined;
  return [
    ...(jobs.data?.data ?? []).flatMap(ofJob),
    ...(deployments.data?.data ?? []).flatMap(ofDeployment),
    ...(burn.data ? ofCredit(burn.data) : []),
    ...(hooks.data?.data ?? []).flatMap(ofEndpoint),
    ...(keys.data?.data ?? []).flatMap(ofKey),
  ];
}

export function Alerts({ alerts }: { alerts: readonly Alert[] }) {
  if (alerts.length === 0) return null;
  return (
    <Card title="Needs you">
      <ul class="home-alerts">
        {alerts.slice(0, MOST).map(({ key, tone, title, detail, at, href }) => (
          <li key={key}>
            <div class="row">
              <Pill tone={tone}>{title}</Pill>
              {at && <Time at={at} />}
            </div>
            <p>{href ? <a href={href}>{detail}</a> : detail}</p>
          </li>
        ))}
      </ul>
    </Card>
  );
}

const linkTo = (list: string, id: string) => (hasPage(`${list}/:id`) ? `${list}/${id}` : undefined);

function ofJob({ id, status, output_name: name, error, warnings, updated_at: at }: TrainingJob): Alert[] {
  const href = linkTo("/runs", id);
  if (status === "failed" && Date.now() - Date.parse(at) < DAY_MS)
    return [{ key: id, tone: "bad", title: `${name} failed`, detail: error?.message.split("\n")[0] ?? "", at, href }];
  const [warning] = status === "running" ? warnings : [];
  return warning ? [{ key: id, tone: "warn", title: name, detail: warning.message, href }] : [];
}

const ofDeployment = ({ id, status, name, error }: Deployment): Alert[] =>
  status === "failed"
    ? [{ key: id, tone: "bad", title: `${name} failed`, detail: error ?? "", href: linkTo("/deployments", id) }]
    : [];

const ofCredit = ({ hours_remaining: hours, balance_usd: balance }: BurnRate): Alert[] =>
  hours !== null && hours < LOW_HOURS
    ? [
        {
          key: "credit",
          tone: "warn",
          title: "Low credit",
          detail: `${money(balance)} are left, for ${duration(hours * 3600)}. Jobs pause when the credit is used up.`,
        },
      ]
    : [];

const ofEndpoint = ({ id, url, disabled_at: at }: WebhookEndpoint): Alert[] =>
  at === null
    ? []
    : [
        {
          key: id,
          tone: "warn",
          title: "Webhook disabled",
          at,
          detail: `${url} failed for too long. Its deliveries wait until it is enabled again.`,
          href: linkTo("/webhooks", id),
        },
      ];

const ofKey = ({ id, name, created_at: created, expires_at: at }: ApiKey): Alert[] =>
  at !== null && expiresSoon(Date.parse(created), Date.parse(at), Date.now())
    ? [
        {
          key: id,
          tone: "warn",
          title: "Key ends soon",
          at,
          detail: `${name} stops working then. Replace it: verk keys rotate ${id}`,
          href: hasPage("/keys") ? "/keys" : undefined,
        },
      ]
    : [];

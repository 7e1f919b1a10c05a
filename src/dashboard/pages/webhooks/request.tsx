/** The request of a delivery as it is sent: address, headers, the signed text. */
import type { DeliveryRequest } from "../../../resources/watching/webhooks/schema.ts";
import { Copy } from "../../kit/copy.tsx";
import { Json } from "../../kit/json.tsx";

export function SentRequest({ request: { url, headers, body } }: { request: DeliveryRequest }) {
  return (
    <section class="webhooks-request" aria-label="Sent">
      <h3>
        Sent
        {body !== null && <Copy text={commandOf(url, headers, body)} label="Copy as curl" />}
      </h3>
      <code class="webhooks-url">{`POST ${url}`}</code>
      <dl>
        {Object.entries(headers).map(([name, value]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
      {body === null ? <p class="muted">The text was deleted with its deliveries.</p> : <Body text={body} />}
    </section>
  );
}

function Body({ text }: { text: string }) {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    return <pre class="text">{text}</pre>;
  }
  return <Json value={value} />;
}

const quoted = (text: string) => `'${text.replaceAll("'", "'\\''")}'`;

/** A shell command that sends the same request. The signature is too old after five minutes. */
const commandOf = (url: string, headers: Readonly<Record<string, string>>, body: string): string =>
  [
    `curl ${quoted(url)}`,
    ...Object.entries(headers).map(([name, value]) => `-H ${quoted(`${name}: ${value}`)}`),
    `--data-raw ${quoted(body)}`,
  ].join(" \\\n  ");

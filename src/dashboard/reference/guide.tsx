/** The rules that hold for every route. */
import type { ComponentChildren } from "preact";

const Rule = ({ title, children }: { title: string; children: ComponentChildren }) => (
  <div class="card">
    <h3>{title}</h3>
    <p>{children}</p>
  </div>
);

export const Guide = () => (
  <section id="introduction">
    <h1>API reference</h1>
    <p class="purpose">
      Everything that this server does, over HTTP and JSON. The same contract as a file:{" "}
      <a class="ref" href="/openapi.json">
        openapi.json
      </a>
      .
    </p>
    <div class="reference-guide">
      <Rule title="Start">
        Put a key into <code>VERK_API_KEY</code>: <code>export VERK_API_KEY=$(verk keys create)</code>. Then copy a
        command.
      </Rule>
      <Rule title="Keys">
        Send <code>Authorization: Bearer vk_…</code>. A key belongs to one workspace and sees nothing of the others.
      </Rule>
      <Rule title="Errors">
        A failure is <code>{'{"error": {type, code, message, param}}'}</code>. Decide by <code>code</code>;{" "}
        <code>param</code> points at the field. Detection answers <code>{"{error, code}"}</code>.
      </Rule>
      <Rule title="Lists">
        Newest first, but events oldest first. <code>limit</code> is 1 to 100. Pass the last id as <code>after</code>{" "}
        while <code>has_more</code> is true.
      </Rule>
      <Rule title="Streams">
        Logs, events and chats with <code>stream</code> are server-sent events. Read them with <code>curl -N</code>.
        Reconnect with <code>Last-Event-ID</code>.
      </Rule>
      <Rule title="Retries">
        Send <code>Idempotency-Key</code> with a POST that creates. The same key gives the same answer for 24 hours.
      </Rule>
    </div>
  </section>
);

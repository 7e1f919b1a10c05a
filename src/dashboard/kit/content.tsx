/** Content of requests, and links to the things that made it. */
import type { ComponentChildren } from "preact";
import { words } from "../data/format.ts";
import { type Message, messagesOf } from "../data/messages.ts";
import { hasPage } from "../shell/router.ts";

/** Chat messages, one below the other. `of`: a text, texts or chat messages, as the API keeps them. */
export const Messages = ({ of, by = "" }: { of: unknown; by?: string | undefined }) => (
  <MessageList messages={messagesOf(of)} by={by} />
);

/** `by`: the role of messages that have none. */
export const MessageList = ({ messages, by = "" }: { messages: readonly Message[]; by?: string | undefined }) => (
  <div class="messages">
    {messages.map((message, i) => (
      <div key={i} class="message">
        {(message.role || by) !== "" && <small>{words(message.role || by)}</small>}
        <pre class="text">{message.text === "" ? "(empty)" : message.text}</pre>
      </div>
    ))}
  </div>
);

type RefProps = {
  /** The pattern of a page: "/deployments/:id". Without such a page the text stands alone. */
  page: string;
  id: string;
  children?: ComponentChildren;
};

export const Ref = ({ page, id, children = id }: RefProps) =>
  hasPage(page) ? (
    <a class="ref" href={page.replace(":id", encodeURIComponent(id))}>
      {children}
    </a>
  ) : (
    <span>{children}</span>
  );

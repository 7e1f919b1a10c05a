/** The frame of every page, and the states of its data: loading, empty, failed. */
import type { ComponentChildren } from "preact";
import { useEffect } from "preact/hooks";
import type { ApiError } from "../data/api.ts";
import { Button, LinkButton } from "./button.tsx";
import { Command } from "./copy.tsx";

type PageProps = {
  title: string;
  /** One line: what the page is for. */
  purpose?: ComponentChildren;
  /** Beside the title, as a state. */
  beside?: ComponentChildren;
  actions?: ComponentChildren;
  /** Addresses above this page: `[["Runs", "/runs"]]`. */
  above?: readonly (readonly [name: string, href: string])[] | undefined;
  children: ComponentChildren;
};

export function Page({ title, purpose, beside, actions, above = [], children }: PageProps) {
  useEffect(() => {
    document.title = `${title} · Verk`;
  }, [title]);
  return (
    <>
      <div class="top">
        <div class="heading">
          {above.length > 0 && (
            <nav class="above" aria-label="Above this page">
              {above.map(([name, href]) => (
                <a key={href} href={href}>
                  {name}
                </a>
              ))}
            </nav>
          )}
          <div class="title">
            <h1 tabIndex={-1}>{title}</h1>
            {beside}
          </div>
          {purpose !== undefined && <p class="purpose">{purpose}</p>}
        </div>
        <div class="actions">{actions}</div>
      </div>
      {children}
    </>
  );
}

type EmptyProps = {
  title: string;
  children?: ComponentChildren;
  /** The next command, with a copy button. */
  command?: string | undefined;
  action?: ComponentChildren;
};

/** Nothing is here yet: says the next step. */
export const Empty = ({ title, children, command, action }: EmptyProps) => (
  <div class="empty">
    <b>{title}</b>
    {children !== undefined && <p>{children}</p>}
    {command !== undefined && <Command text={command} />}
    {action}
  </div>
);

const TITLES: Readonly<Record<number, string>> = {
  0: "The server does not answer",
  403: "This key may not see this",
  404: "This does not exist, or it was deleted",
};
/** A second try cannot help. */
const FINAL = [400, 403, 404];

/** The route for programs at the end of a message. A page has a button for the list. */
const ROUTE = /[.:;]? GET \/\S+ lists them\.?$/;

type ErrorBoxProps = {
  error: ApiError;
  retry?: (() => unknown) | undefined;
  /** The heading of an error that is no failed loading. */
  title?: string | undefined;
};

export function ErrorBox({ error, retry, title = "This could not be loaded" }: ErrorBoxProps) {
  const [, list = "", inside] = location.pathname.split("/");
  return (
    <div class="errorbox" role="alert">
      <p>
        <b>{TITLES[error.status] ?? title}</b>
        <span>{error.message.replace(ROUTE, "")}</span>
      </p>
      {retry && !FINAL.includes(error.status) && <Button onClick={retry}>Retry</Button>}
      {error.status === 404 && inside !== undefined && <LinkButton href={`/${list}`}>Back to the list</LinkButton>}
    </div>
  );
}

/** Grey bars in the shape of what comes. `rows`: as many lines; `height`: one block of this many pixels. */
export const Skeleton = ({ rows = 3, height }: { rows?: number | undefined; height?: number | undefined }) => (
  <div class="skeleton" aria-busy="true" role="status" aria-label="Loading">
    {height === undefined ? (
      Array.from({ length: rows }, (_, i) => <i key={i} />)
    ) : (
      <i style={{ height: `${height}px` }} />
    )}
  </div>
);

type LoadedProps<T> = {
  of: { data: T | undefined; error: ApiError | undefined; refresh: () => unknown };
  skeleton?: ComponentChildren;
  children: (data: T) => ComponentChildren;
};

/** The data, or its skeleton, or its error with Retry. Data that was loaded before stays visible while it is refreshed. */
export function Loaded<T>({ of: { data, error, refresh }, skeleton = <Skeleton />, children }: LoadedProps<T>) {
  if (data !== undefined) return <>{children(data)}</>;
  return error ? <ErrorBox error={error} retry={refresh} /> : skeleton;
}

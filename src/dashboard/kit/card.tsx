import type { ComponentChildren } from "preact";

type CardProps = {
  title?: string | undefined;
  /** Small text beside the title. */
  note?: ComponentChildren;
  /** At the right of the title: a link, a button, a legend. */
  side?: ComponentChildren;
  children: ComponentChildren;
  class?: string | undefined;
};

export const Card = ({ title, note, side, children, class: more = "" }: CardProps) => (
  <section class={`card ${more}`} aria-label={title}>
    {(title !== undefined || side !== undefined) && (
      <header>
        {title !== undefined && <h2>{title}</h2>}
        {note !== undefined && <small>{note}</small>}
        <span class="fill" />
        {side}
      </header>
    )}
    {children}
  </section>
);

type StatProps = {
  label: string;
  value: ComponentChildren;
  change?: string | undefined;
  tone?: "good" | "bad" | undefined;
};

/** One large figure. */
export const Stat = ({ label, value, change, tone }: StatProps) => (
  <div class="card stat">
    <span>{label}</span>
    <b>
      {value}
      {change !== undefined && <em class={tone}>{change}</em>}
    </b>
  </div>
);

type FactsProps = { rows: readonly (readonly [name: string, value: ComponentChildren])[] };

/** Names and values in two columns. */
export const Facts = ({ rows }: FactsProps) => (
  <dl class="facts">
    {rows.map(([name, value]) => (
      <div key={name}>
        <dt>{name}</dt>
        <dd>{value}</dd>
      </div>
    ))}
  </dl>
);

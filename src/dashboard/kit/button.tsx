import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { Icon, type IconName } from "./icon.tsx";

type Look = {
  children: ComponentChildren;
  /** `primary`: the one main action of a page. `danger`: it destroys something. */
  kind?: "primary" | "danger" | "quiet" | undefined;
  icon?: IconName | undefined;
};

const classOf = (kind: Look["kind"]) => `btn ${kind ?? ""}`;

type ButtonProps = Look & {
  /** A promise disables the button until it settles. */
  onClick?: (() => unknown) | undefined;
  disabled?: boolean | undefined;
  submit?: boolean | undefined;
  label?: string | undefined;
};

export function Button({ children, kind, icon, onClick, disabled, submit, label }: ButtonProps) {
  const [busy, setBusy] = useState(false);
  const click = async () => {
    const result = onClick?.();
    if (!(result instanceof Promise)) return;
    setBusy(true);
    await result.finally(() => setBusy(false));
  };
  return (
    <button
      type={submit ? "submit" : "button"}
      class={classOf(kind)}
      disabled={disabled || busy}
      aria-busy={busy}
      aria-label={label}
      onClick={() => void click()}
    >
      {icon && <Icon name={icon} />}
      {children}
    </button>
  );
}

export const LinkButton = ({ href, children, kind, icon }: Look & { href: string }) => (
  <a class={classOf(kind)} href={href}>
    {icon && <Icon name={icon} />}
    {children}
  </a>
);

type IconButtonProps = { icon: IconName; label: string; onClick: () => unknown; pressed?: boolean | undefined };

export const IconButton = ({ icon, label, onClick, pressed }: IconButtonProps) => (
  <button
    type="button"
    class="btn quiet only"
    aria-label={label}
    title={label}
    aria-pressed={pressed}
    onClick={onClick}
  >
    <Icon name={icon} />
  </button>
);

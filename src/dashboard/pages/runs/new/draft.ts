/** The form while it is filled in. A form that was left is there again on return; closing the tab asks first. */
import { useEffect, useState } from "preact/hooks";
import { session } from "../../../data/session.ts";
import type { Form } from "./form.ts";

type Draft = { of: string; form: Form };
let left: Draft | undefined; // in memory only: a form may hold code and names that no storage of the browser needs

/** A form that began in another way, or with another key, is another form. */
const nameOf = (start: Form, source: string | undefined) =>
  JSON.stringify([session.value.is === "in" ? session.value.session.key.id : "", source, start]);

export function useDraft(start: Form, source: string | undefined) {
  const of = nameOf(start, source);
  const [kept] = useState(() => (left?.of === of ? left.form : undefined));
  const [form, setForm] = useState(kept ?? start);
  const [isKept, setKept] = useState(kept !== undefined);
  const isChanged = JSON.stringify(form) !== JSON.stringify(start);
  const change = (part: Partial<Form>) => {
    setForm((before) => {
      left = { of, form: { ...before, ...part } };
      return left.form;
    });
  };
  const forget = () => {
    left = undefined;
  };
  const startOver = () => {
    forget();
    setForm(start);
    setKept(false);
  };
  useEffect(() => {
    if (!isChanged) return;
    const onLeave = (event: BeforeUnloadEvent) => {
      if (left) event.preventDefault(); // the browser asks
    };
    addEventListener("beforeunload", onLeave);
    return () => removeEventListener("beforeunload", onLeave);
  }, [isChanged]);
  return { form, change, isKept, startOver, forget };
}

import { exactTime, words } from "../../data/format.ts";
import { Pill } from "../../kit/pill.tsx";
import { Time } from "../../kit/time.tsx";
import { type Attempt, adviceOf, answerOf, isSuccess } from "./words.ts";

/** The answer of an attempt, and what to do about a bad one. */
export function Answer({ attempt }: { attempt: Attempt }) {
  const { response_body: body, error_message: error } = attempt;
  const advice = adviceOf(attempt);
  return (
    <>
      {error !== null && <p class="bad">{error}</p>}
      {advice !== undefined && <p>{advice}</p>}
      {body !== null && body !== "" && <pre class="text">{body}</pre>}
      {error === null && !body && <p class="muted">The answer had no text.</p>}
    </>
  );
}

export const AnswerPill = ({ attempt }: { attempt: Attempt }) => (
  <Pill tone={isSuccess(attempt) ? "good" : "bad"}>{words(answerOf(attempt))}</Pill>
);

const TRIGGERS: Readonly<Record<Attempt["trigger"], string>> = {
  scheduled: "by itself",
  manual: "resent by hand",
  test: "a test",
};

/** Newest first. */
export const Attempts = ({ attempts }: { attempts: readonly Attempt[] }) => (
  <section aria-label="Answers">
    <h3>Answers</h3>
    {attempts.length === 0 && <p class="muted">No attempt yet.</p>}
    <ol class="webhooks-attempts">
      {attempts.toReversed().map((each) => (
        <li key={each.number}>
          <div class="row">
            <b>{`Attempt ${each.number}`}</b>
            <AnswerPill attempt={each} />
            <small class="muted" title={exactTime(each.attempted_at)}>
              <Time at={each.attempted_at} />
              {`, ${TRIGGERS[each.trigger]}`}
            </small>
          </div>
          <Answer attempt={each} />
        </li>
      ))}
    </ol>
  </section>
);

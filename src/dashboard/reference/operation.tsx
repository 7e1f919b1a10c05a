/** One route: its fields at the left, a command and "Try it" at the right. */
import { useState } from "preact/hooks";
import { Copy } from "../kit/copy.tsx";
import { nameOf, type Operation as Route, type ShownAnswer } from "./contract.ts";
import { bodyOf, missingIn, pretty, sample, valuesOf } from "./example.ts";
import { Field, Shape } from "./fields.tsx";
import { apiKey } from "./key.ts";
import { codeOf, LANGUAGES, type Language, language, needsCurl, withKey } from "./languages.ts";
import { Code, Prose } from "./text.tsx";
import { TryIt } from "./try_it.tsx";

/** `saves`: the variable that later commands have for the id in the answer. */
export const Operation = ({ of, saves }: { of: Route; saves: string | undefined }) => (
  <article id={of.id} data-operation={`${of.method} ${of.path}`}>
    <div>
      <h3>
        <a href={`#${of.id}`}>{of.summary}</a>
      </h3>
      <p class="reference-path">
        <Verb method={of.method} />
        <code>{of.path.split(/(\{\w+\})/).map((part, i) => (i % 2 === 1 ? <i key={i}>{part}</i> : part))}</code>
      </p>
      {of.description !== undefined && (
        <p>
          <Prose text={of.description} />
        </p>
      )}
      {of.auth === null && <p class="reference-note">Needs no key.</p>}
      <Parameters of={of} where="path" title="Path" />
      <Parameters of={of} where="query" title="Query" />
      {of.body?.schema && (
        <>
          <h4>
            Body <code>{nameOf(of.body.schema)}</code>
          </h4>
          <Shape schema={of.body.schema} marks isOpen />
        </>
      )}
      {of.answers.map((answer) => (
        <AnswerFields key={answer.codes.join()} of={answer} />
      ))}
    </div>
    <Examples of={of} saves={saves} />
  </article>
);

const SHORT: Readonly<Record<string, string>> = { delete: "DEL" };

export const Verb = ({ method, short = false }: { method: string; short?: boolean }) => (
  <span class={`reference-verb ${method}`}>{(short && SHORT[method]) || method.toUpperCase()}</span>
);

function Parameters({ of, where, title }: { of: Route; where: "path" | "query"; title: string }) {
  const some = of.parameters.filter((parameter) => parameter.in === where);
  if (some.length === 0) return null;
  return (
    <>
      <h4>{title}</h4>
      <ul class="reference-fields">
        {some.map(({ name, schema, description, required }) => (
          <Field
            key={name}
            name={name}
            schema={description === undefined ? schema : { ...schema, description }}
            required={required}
          />
        ))}
      </ul>
    </>
  );
}

const AnswerFields = ({ of: { codes, media, schema } }: { of: ShownAnswer }) => (
  <>
    <h4>
      Answer {codes.join(", ")} <code>{schema && media === "application/json" ? nameOf(schema) : media}</code>
    </h4>
    {schema && <Shape schema={schema} marks={false} isOpen={false} />}
  </>
);

function Examples({ of, saves }: { of: Route; saves: string | undefined }) {
  const [values, setValues] = useState(() => valuesOf(of.parameters));
  const [body, setBody] = useState(() => bodyOf(of));
  const chosen: Language = needsCurl(language.value, of) ? "curl" : language.value;
  const code = codeOf(chosen, of, { origin: location.origin, values, body });
  const missing = missingIn(code);
  const name = LANGUAGES[chosen];
  return (
    <div>
      <div class="reference-code">
        <header>
          <Languages of={of} chosen={chosen} />
          <Copy
            text={withKey(code, apiKey.value)}
            label={chosen === "curl" ? "Copy the curl command" : `Copy the ${name} code`}
          />
        </header>
        <Code label={chosen === "curl" ? "curl command" : `${name} code`} text={code} />
        {missing.length > 0 && (
          <footer>
            Set <code>{missing.join(" ")}</code> first, or fill in the form below.
          </footer>
        )}
        {apiKey.value !== "" && of.auth !== null && (
          <footer>A copy of this code has the key of the top bar in it.</footer>
        )}
        {saves !== undefined && (
          <footer>
            The examples call the <code>id</code> of this answer <code>{saves}</code>.
          </footer>
        )}
      </div>
      <TryIt
        operation={of}
        values={values}
        body={body}
        onValue={(name, value) => setValues((before) => ({ ...before, [name]: value }))}
        onBody={setBody}
      />
      {of.answers.map(
        ({ codes, schema }) => schema && <SampleAnswer key={codes.join()} codes={codes} schema={schema} />,
      )}
    </div>
  );
}

const Languages = ({ of, chosen }: { of: Route; chosen: Language }) => (
  // biome-ignore lint/a11y/useSemanticElements: a set of buttons is no set of fields
  <span class="reference-languages" role="group" aria-label="Language of the example">
    {(Object.keys(LANGUAGES) as Language[])
      .filter((each) => !needsCurl(each, of))
      .map((each) => (
        <button
          key={each}
          type="button"
          aria-pressed={each === chosen}
          onClick={() => {
            language.value = each;
          }}
        >
          {LANGUAGES[each]}
        </button>
      ))}
  </span>
);

const SampleAnswer = ({ codes, schema }: { codes: readonly string[]; schema: NonNullable<ShownAnswer["schema"]> }) => (
  <div class="reference-code">
    <header>
      <span>Answer {codes.join(", ")}</span>
    </header>
    <Code label={`Example of answer ${codes.join(", ")}`} text={pretty(sample(schema))} />
  </div>
);

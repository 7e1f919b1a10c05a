/** tokenizer.model of SentencePiece (a protobuf message) → vocabulary. Bounded: every length is checked before use. */
import { CheckpointError } from "../../../lib/checkpoints/families.ts";
import { type Field, fieldsOf } from "../protobuf.ts";
import { type AddedToken, createTables, TOKEN, type Vocabulary } from "./vocabulary.ts";

type Piece = { text: string; score: number; type: number };
type Sentencepiece = { pieces: Piece[]; modelType: number; addDummyPrefix: boolean };

const UNIGRAM = 1;
const BPE = 2;
const ADDED_SCORE = -1000;

export function vocabularyOfSentencepiece(bytes: Uint8Array, rows: number, added: readonly AddedToken[]): Vocabulary {
  const { pieces, modelType, addDummyPrefix } = parseSentencepiece(bytes);
  if (modelType !== BPE)
    throw new CheckpointError(
      `tokenizer.model is a ${modelType === UNIGRAM ? "unigram" : "word or character"} model, but only BPE is supported`,
    );
  const tables = createTables(rows);
  const scores: number[] = Array(rows).fill(ADDED_SCORE);
  for (const [id, { text, score, type }] of pieces.entries()) {
    tables.put(id, text, type);
    scores[id] = score;
  }
  tables.addAll(added);
  return {
    model: "llama",
    pre: "default",
    tokens: tables.finish(),
    types: tables.types,
    scores,
    addSpacePrefix: addDummyPrefix,
  };
}

export function parseSentencepiece(bytes: Uint8Array): Sentencepiece {
  const model: Sentencepiece = { pieces: [], modelType: UNIGRAM, addDummyPrefix: true };
  for (const field of fieldsOf(bytes, damaged)) {
    if (field.number === 1) model.pieces.push(pieceOf(bytesIn(field)));
    if (field.number === 2)
      for (const inner of fieldsOf(bytesIn(field), damaged))
        if (inner.number === 3) model.modelType = Number(inner.value);
    if (field.number === 3)
      for (const inner of fieldsOf(bytesIn(field), damaged))
        if (inner.number === 3) model.addDummyPrefix = Number(inner.value) !== 0;
  }
  if (model.pieces.length === 0) throw damaged("it has no tokens");
  return model;
}

const utf8 = new TextDecoder("utf-8", { ignoreBOM: true }); // a byte order mark is a token

function pieceOf(bytes: Uint8Array): Piece {
  const piece: Piece = { text: "", score: 0, type: TOKEN.normal };
  for (const field of fieldsOf(bytes, damaged)) {
    if (field.number === 1) piece.text = utf8.decode(bytesIn(field));
    if (field.number === 2) piece.score = floatIn(bytesIn(field));
    if (field.number === 3) piece.type = Number(field.value);
  }
  if (piece.text === "") throw damaged("a token is empty");
  if (piece.type < TOKEN.normal || piece.type > TOKEN.byte || !Number.isFinite(piece.score))
    throw damaged(`a token has the type ${piece.type} and the score ${piece.score}`);
  return piece;
}

const bytesIn = ({ number, value }: Field): Uint8Array => {
  if (typeof value === "number") throw damaged(`field ${number} has the wrong type`);
  return value;
};

function floatIn(bytes: Uint8Array): number {
  if (bytes.byteLength !== 4) throw damaged("a score is not a float");
  return new DataView(bytes.buffer, bytes.byteOffset).getFloat32(0, true);
}

const damaged = (why: string) =>
  new CheckpointError(`tokenizer.model is not a SentencePiece file, or it is damaged: ${why}`);

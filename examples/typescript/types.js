// Makes the types of the API from its OpenAPI document: node types.js OPENAPI_JSON OUTPUT
//
// The same as the command openapi-typescript, except that integers are bigint: they have 64 bits, and src/client.ts
// reads them so.
import { writeFileSync } from "node:fs";
import { pathToFileURL } from "node:url";
import openapiTS, { astToString } from "openapi-typescript";
import ts from "typescript";

const BIGINT = ts.factory.createKeywordTypeNode(ts.SyntaxKind.BigIntKeyword);
const NULL = ts.factory.createLiteralTypeNode(ts.factory.createNull());

function transform(schema) {
  const types = [schema.type].flat();
  if (!types.includes("integer")) return undefined; // as the command does it
  return types.includes("null") ? ts.factory.createUnionTypeNode([BIGINT, NULL]) : BIGINT;
}

const [input, output] = process.argv.slice(2);
writeFileSync(output, astToString(await openapiTS(pathToFileURL(input), { transform })));

// Which programs load, which are refused, and how the refusal reads.
#include <gmock/gmock.h>

#include <random>
#include <regex>

#include "dataplane/engine/image/image.h"
#include "tests/dataplane/engine/testing.h"

namespace tiercast::engine {
namespace {

using ::testing::HasSubstr;

LoadError refusal(const std::string& text) {
  try {
    Program::load(text, "x.json");
  } catch (const LoadError& error) {
    return error;
  }
  ADD_FAILURE() << "loaded";
  return {"", "", ""};
}

TEST(Loader, DescribesTheProgram) {
  const auto program = load_program("router");
  ASSERT_EQ(program->registers().size(), 1u);
  EXPECT_EQ(program->registers()[0].name, "MyIngress.last_source");
  EXPECT_EQ(program->registers()[0].width, 32u);
  EXPECT_EQ(program->registers()[0].size, 16u);
  ASSERT_EQ(program->counters().size(), 2u);
  EXPECT_EQ(program->counters()[0].name, "MyIngress.by_port");
  EXPECT_EQ(program->counters()[1].table, "MyIngress.route");
  const TableInfo* route = nullptr;
  for (const TableInfo& table : program->tables()) {
    if (table.name == "MyIngress.route") route = &table;
  }
  ASSERT_NE(route, nullptr);
  EXPECT_EQ(route->keys.at(0).name, "hdr.ipv4.dst");
  EXPECT_EQ(route->keys.at(0).kind, MatchKind::kLpm);
  EXPECT_EQ(route->keys.at(0).width, 32u);
  EXPECT_EQ(route->max_size, 8u);
  EXPECT_EQ(route->direct_counter, "MyIngress.route_hits");
}

TEST(Loader, NamesAnUnsupportedConstructAndItsLine) {
  const LoadError error =
      refusal(with(program_text("meter"), "\"type\" : \"bytes\"", "\"type\" : \"miles\""));
  EXPECT_THAT(error.construct(), HasSubstr("a meter of type `miles`"));
  EXPECT_EQ(error.source(), "meter.p4:16");
  EXPECT_THAT(error.what(), HasSubstr("x.json: a meter"));
}

TEST(Loader, RefusesWhatIsNotBmv2) {
  EXPECT_THAT(refusal("").construct(), HasSubstr("not JSON"));
  EXPECT_THAT(refusal("{").construct(), HasSubstr("not JSON"));
  EXPECT_THAT(refusal("[1, 2]").construct(), HasSubstr("not bmv2 JSON"));
  EXPECT_THAT(refusal("{}").construct(), HasSubstr("not bmv2 JSON"));
  EXPECT_THAT(refusal(R"({"__meta__": {"version": [1, 0]}})").construct(),
              HasSubstr("bmv2 JSON version 1, expected 2.x (at __meta__.version)"));
  EXPECT_THAT(refusal(R"({"__meta__": {"version": [2, 23]}})").construct(),
              HasSubstr("missing attribute `header_types`"));
  EXPECT_THAT(refusal(std::string(100000, '[')).construct(), HasSubstr("nested deeper"));
}

TEST(Loader, BlanksBetweenTokensMeanNothingAndBlanksInThemAreKept) {
  EXPECT_THAT(refusal("[1\t,\r\n2 ] ").construct(), HasSubstr("not bmv2 JSON"));
  EXPECT_THAT(refusal("[1 2]").construct(), HasSubstr("not JSON"));
  EXPECT_THAT(refusal("[tr ue]").construct(), HasSubstr("not JSON"));
  EXPECT_THAT(refusal("[\"a\n\"]").construct(), HasSubstr("not JSON"));
  EXPECT_THAT(refusal("[\"\\").construct(), HasSubstr("not JSON"));
  EXPECT_THAT(refusal("[\"").construct(), HasSubstr("not JSON"));
  EXPECT_THAT(refusal("{\n  \"a\": 1,\n  x\n}").construct(), HasSubstr("line 3, column 3"));
  EXPECT_THAT(refusal(std::string("[1]\0 [", 6)).construct(), HasSubstr("line 1, column 4"));
  EXPECT_THAT(refusal("[\"\xff\"]").construct(), HasSubstr("not JSON"));
  EXPECT_THAT(refusal("[18446744073709551616]").construct(), HasSubstr("not bmv2 JSON"));
  EXPECT_THAT(refusal("[1e400]").construct(), HasSubstr("not JSON"));
  const std::string text = program_text("probe");
  const std::string odd = "\"a \\\" :  b\"";
  EXPECT_THAT(
      refusal(with(text, "\"init_state\" : \"start\"", "\"init_state\" : " + odd)).construct(),
      HasSubstr("unknown parser state `a \" :  b`"));
}

TEST(Loader, RefusesAnotherArchitectureByItsName) {
  const auto made_for = [](const std::string& metadata) {
    return std::regex_replace(program_text("probe"), std::regex("\"standard_metadata\""),
                              "\"" + metadata + "\"");
  };
  EXPECT_EQ(refusal(made_for("pna_main_input_metadata")).construct(),
            "a program for the architecture `pna`; valid architectures: v1model, psa");
  EXPECT_EQ(refusal(made_for("my_metadata")).construct(),
            "no architecture's metadata among the headers; valid architectures: v1model, psa");
}

TEST(Loader, RefusesWhatPsaDoesNotHave) {
  const std::string text = program_text("psa_externs");
  EXPECT_THAT(refusal(with(text, "\"type\" : \"Meter\"", "\"type\" : \"Checksum\"")).construct(),
              HasSubstr("extern `In.rate` of type `Checksum`: not supported in psa"));
  EXPECT_THAT(refusal(with(text, "\"_Meter_execute\"", "\"truncate\"")).construct(),
              HasSubstr("primitive `truncate` is not supported"));
  EXPECT_THAT(refusal(with(text, "\"In.crc16\"", "\"In.other\"")).construct(),
              HasSubstr("unknown extern `In.other`"));
  EXPECT_THAT(refusal(with(text, "\"ingress_parser\"", "\"parser\"")).construct(),
              HasSubstr("no parser is named `ingress_parser`"));
  EXPECT_THAT(refusal(with(text, "\"egress_deparser\"", "\"deparser\"")).construct(),
              HasSubstr("no deparser is named `egress_deparser`"));
}

TEST(Loader, NamesThePlaceOfAWrongType) {
  const std::string text = program_text("probe");
  EXPECT_THAT(refusal(with(text, "\"init_state\" : \"start\"", "\"init_state\" : 3")).construct(),
              HasSubstr("expected a string, found an integer (at parsers[0].init_state)"));
  EXPECT_THAT(
      refusal(with(text, "\"init_state\" : \"start\"", "\"init_state\" : \"x\"")).construct(),
      HasSubstr("unknown parser state `x`"));
  EXPECT_THAT(
      refusal(with(text, "[\"out_port\", 8, false]", "[\"out_port\", 0, false]")).construct(),
      HasSubstr("expected an integer from 1 to 2048, found 0"));
  EXPECT_THAT(refusal(with(text, "\"mark_to_drop\"", "\"explode\"")).construct(),
              HasSubstr("primitive `explode` is not supported"));
  EXPECT_THAT(refusal(with(text, "\"op\" : \"==\"", "\"op\" : \"**\"")).construct(),
              HasSubstr("operator `**` is not supported"));
}

TEST(Loader, NamesTheLineOfAWrongPrimitive) {
  const LoadError error = refusal(with(program_text("probe"), "\"mark_to_drop\"", "\"explode\""));
  EXPECT_EQ(error.source(), "probe.p4:36");
}

TEST(Loader, RefusesALoopInTheControlFlow) {
  const std::string text = program_text("probe");
  const std::string next = "\"base_default_next\" : ";
  const auto at = text.rfind("\"false_next\" : \"");
  ASSERT_NE(at, std::string::npos);
  const auto end = text.find('"', at + 16);
  const auto conditional = text.rfind("\"name\" : \"node_", at);
  const std::string own =
      text.substr(conditional + 10, text.find('"', conditional + 10) - conditional - 10);
  std::string looped = text;
  looped.replace(at, end + 1 - at, "\"false_next\" : \"" + own + "\"");
  EXPECT_THAT(refusal(looped).construct(), HasSubstr("a loop in the control flow"));
}

// A state that nothing reaches and that leads to itself alone is no code that runs for ever.
TEST(Loader, LeavesOutParserStatesThatNothingReaches) {
  const char* const alone = R"("parse_states" : [{
      "name" : "alone", "id" : 99, "parser_ops" : [], "transition_key" : [],
      "transitions" : [
        {"type" : "default", "value" : null, "mask" : null, "next_state" : "alone"}]},)";
  const auto program =
      Program::load(with(program_text("value_set"), "\"parse_states\" : [", alone), "x.json");
  EXPECT_TRUE(program->image().flat.present());
}

// What indexes headers must not get the number of a union.
TEST(Loader, RefusesAStackOfUnionsWhereHeadersAreMeant) {
  const auto with_unions = [](const std::string& from, const std::string& to) {
    const std::string stacks =
        R"("header_unions" : [{"name": "u", "id": 0, "union_type": "t", "header_ids": []}],
           "header_union_stacks" : [
             {"name": "us", "id": 0, "union_type": "t", "size": 1, "header_union_ids": [0]}])";
    const std::string text = with(
        program_text("stack"), "\"header_unions\" : [],\n  \"header_union_stacks\" : []", stacks);
    return refusal(with(text, from, to)).construct();
  };
  const std::string valid = "`us` is a stack of unions; valid: of headers";
  EXPECT_THAT(with_unions("[\"labels\", \"bottom\"]", "[\"us\", \"bottom\"]"), HasSubstr(valid));
  EXPECT_THAT(with_unions("\"value\" : \"labels\"", "\"value\" : \"us\""), HasSubstr(valid));
  const std::string field = R"("type" : "field",
                "value" : ["standard_metadata", "parser_error"])";
  EXPECT_THAT(with_unions(field, R"("type" : "stack_field", "value" : ["us", "bottom"])"),
              HasSubstr(valid));
  EXPECT_THAT(with_unions(field,
                          R"("type" : "expression", "value" : {
                             "op" : "size_stack", "left" : null,
                             "right" : {"type" : "header_union_stack", "value" : "us"}})"),
              HasSubstr(valid));
}

TEST(Loader, SurvivesEveryTruncation) {
  const std::string text = program_text("router");
  for (std::size_t length = 0; length < text.size() - 2; length += 97) {
    EXPECT_THROW(Program::load(text.substr(0, length), "cut"), LoadError) << length;
  }
}

// However a program is damaged, it loads or is refused; there is no other exception, and what loads
// also runs.
TEST(Loader, SurvivesDamage) {
  std::mt19937 random(3);
  const std::vector<std::string> values = {"null", "0",    "-1",    "\"\"",       "[]",    "{}",
                                           "true", "1e99", "\"x\"", "4294967295", "\"0x\""};
  for (const char* name : {"router", "expressions", "matching", "again"}) {
    const std::string text = program_text(name);
    for (int round = 0; round < 300; ++round) {
      std::string damaged = text;
      for (int cut = 0; cut < 1 + round % 3; ++cut) {
        const auto colon = damaged.find(" : ", random() % damaged.size());
        if (colon == std::string::npos) continue;
        const auto end = damaged.find_first_of(",\n", colon);
        damaged.replace(colon + 3, end - colon - 3, values[random() % values.size()]);
      }
      try {
        const auto program = Program::load(damaged, "damaged");
        Recorder out;
        Switch sw(program, {}, out);
        EXPECT_OK(sw.set_port(1, {}));
        sw.receive(1, FrameBuilder().put(1, 8).pad_to(400).take(), 0);
      } catch (const LoadError&) {
      }
    }
  }
}

}  // namespace
}  // namespace tiercast::engine

// The embedded template, and that data gets into it whole and can't get out of its element.
#include "web/report_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace lockstep {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

constexpr std::string_view kOpening = R"(<script type="application/json" id="data">)";

std::string data_of(const std::string& page) {
  const std::size_t begin = page.find(kOpening) + kOpening.size();
  return page.substr(begin, page.find("</script>", begin) - begin);
}

TEST(ReportPage, TemplateIsOnePageThatAsksNoOneForAnything) {
  const std::string page(report_template());
  EXPECT_THAT(page, StartsWith("<!doctype html>"));
  EXPECT_THAT(page, HasSubstr("default-src 'none'"));
  EXPECT_THAT(page, Not(HasSubstr("src=\"")));
  EXPECT_LT(page.size(), 1'000'000u);
  EXPECT_EQ(page.find("/*DATA*/"), page.rfind("/*DATA*/"));
}

TEST(ReportPage, DataComesBackAsItWentIn) {
  const nlohmann::json data = {{"title", "µ & \"quotes\""}, {"values", {1.5, nullptr, true}}};
  const std::string page = render_report(data.dump());
  EXPECT_EQ(nlohmann::json::parse(data_of(page)), data);
  EXPECT_THAT(page, Not(HasSubstr("/*DATA*/")));
  EXPECT_THAT(page, HasSubstr("</html>"));
}

TEST(ReportPage, HostileTextStaysInItsElement) {
  const nlohmann::json data = {{"title", "</script><img src=x onerror=alert(1)><!--<script>"}};
  const std::string page = render_report(data.dump());
  EXPECT_THAT(page, Not(HasSubstr("<img")));
  EXPECT_THAT(data_of(page), Not(HasSubstr("<")));
  EXPECT_EQ(nlohmann::json::parse(data_of(page)), data);
}

TEST(ReportPage, DataThatHoldsTheMarkIsData) {
  const nlohmann::json data = {{"title", "/*DATA*/"}};
  EXPECT_EQ(nlohmann::json::parse(data_of(render_report(data.dump()))), data);
}

}  // namespace
}  // namespace lockstep

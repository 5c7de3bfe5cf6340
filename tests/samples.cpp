// samples SOURCE FILE...: prints a program of all sample code in these headers and documents of the
// folder SOURCE. The test `samples` compiles that program. Errors name the line of the sample.
//
// In a header a sample is the indented part of a comment that follows one of these beginnings, of
// which the second may go over several lines:
//
//   Sample:                                   what stands in a namespace
//   Sample, with Rank& rank, Values values:   the body of a function with these parameters
//
// Both are in namespace lockstep and see what their header includes. In a document a sample is a
// block of C++, a program of its own but for the library.
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

namespace {

struct Line {
  int number;  // in its file, from 1
  std::string text;
};

std::vector<Line> lines_of(const std::string& path) {
  std::ifstream in(path);
  std::vector<Line> lines;
  for (std::string text; std::getline(in, text);)
    lines.push_back({static_cast<int>(lines.size()) + 1, text});
  return lines;
}

void print_line(const std::string& file, const Line& line, std::size_t from = 0) {
  std::cout << "#line " << line.number << " \"" << file << "\"\n" << line.text.substr(from) << '\n';
}

// Returns how many samples the file has.
int print_samples_of_header(const std::string& source, const std::string& file) {
  const std::string alone = "// Sample:", with = "// Sample, with ", indent = "//   ";
  const std::vector<Line> lines = lines_of(source + "/" + file);
  int samples = 0;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const Line& first = lines[i];
    const bool in_function = first.text.starts_with(with);
    if (!in_function && first.text != alone) continue;
    if (samples++ == 0) std::cout << "#include \"" << file.substr(file.find('/') + 1) << "\"\n";
    std::cout << "namespace lockstep::in_" << std::filesystem::path(file).stem().string() << " {\n";
    if (in_function) {
      std::string parameters = first.text.substr(with.size());
      while (!parameters.ends_with(':') && lines.at(i + 1).text.starts_with("// "))
        parameters += lines[++i].text.substr(2);
      parameters.back() = ')';
      print_line(file, {first.number, fmt::format("[[maybe_unused]] static void sample_{}({} {{",
                                                  samples, parameters)});
    }
    while (++i < lines.size() && (lines[i].text == "//" || lines[i].text.starts_with(indent)))
      if (lines[i].text != "//") print_line(file, lines[i], indent.size());
    std::cout << (in_function ? "}\n}\n" : "}\n");
  }
  return samples;
}

int print_samples_of_document(const std::string& source, const std::string& file) {
  int samples = 0;
  bool in_sample = false;
  for (const Line& line : lines_of(source + "/" + file)) {
    if (line.text == "```cpp")
      in_sample = ++samples > 0;
    else if (line.text == "```")
      in_sample = false;
    else if (in_sample)
      print_line(file, line);
  }
  return samples;
}

}  // namespace

int main(int argc, char** argv) {
  int samples = 0;
  for (int i = 2; i < argc; ++i)
    samples += std::string(argv[i]).ends_with(".md") ? print_samples_of_document(argv[1], argv[i])
                                                     : print_samples_of_header(argv[1], argv[i]);
  if (samples > 0) return 0;
  std::cerr << "there is no sample code in " << argc - 2 << " files\n";
  return 1;
}

# cmake -Dfrom=FILE -Dto=FILE -P raw_string.cmake: a text file as a C++ raw string literal.
file(READ ${from} text)
string(FIND "${text}" ")page\"" end)
if(NOT end EQUAL -1)
  message(FATAL_ERROR "${from} contains what would end the literal: )page\"")
endif()
file(WRITE ${to} "R\"page(${text})page\"\n")
